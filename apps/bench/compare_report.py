# SPDX-License-Identifier: Apache-2.0
"""Table and JSON of scripts/compare_pytorch.sh, from the files that its processes left: WORK/<row>/<program>.<round>.json.

compare_report.py WORK [--json FILE]      all rows
compare_report.py --faster WORK/<row>     the faster memory layout of PyTorch so far, one word
"""
import argparse
import json
import os
import pathlib
import platform
import statistics

LAYOUTS = ["contiguous", "channels_last"]


def runs(row, program):
    """The first JSON line of each round's file, by round."""
    found = {}
    for path in row.glob(f"{program}.*.json"):
        with open(path) as f:
            found[int(path.name.split(".")[1])] = json.loads(f.readline())
    return found


def median_ms(by_round):
    return statistics.median(r["median_ms"] for r in by_round.values())


def faster_layout(row):
    """Among those that ran in the most rounds."""
    found = {name: runs(row, name) for name in LAYOUTS}
    most = max(len(r) for r in found.values())
    return min((name for name in LAYOUTS if len(found[name]) == most), key=lambda name: median_ms(found[name]))


def summary(row):
    ours, stock = runs(row, "ours"), runs(row, "stock")
    layout = faster_layout(row)
    best = runs(row, layout)
    first = ours[1]
    for theirs in (best, stock):
        if theirs[1]["parameters"] != first["parameters"]:
            raise SystemExit(f"{row}: the networks differ: {first['parameters']} parameters here, "
                             f"{theirs[1]['parameters']} in PyTorch")

    def spread(by_round):
        return [min(r["median_ms"] for r in by_round.values()), max(r["median_ms"] for r in by_round.values())]

    def ratio_spread(theirs):
        ratios = [theirs[k]["median_ms"] / ours[k]["median_ms"] for k in theirs]
        return [min(ratios), max(ratios)]

    def peak(by_round):
        return statistics.median(r["peak_mib"] for r in by_round.values())

    ours_ms, best_ms, stock_ms = median_ms(ours), median_ms(best), median_ms(stock)
    return {
        "case": first["case"], "base": first["base"], "size": first["size"], "batch": first["batch"],
        "precision": first["precision"], "threads": first["threads"],
        "ours_ms": ours_ms, "torch_best_ms": best_ms, "torch_stock_ms": stock_ms,
        "ratio_best": best_ms / ours_ms, "ratio_stock": stock_ms / ours_ms,
        "ours_peak_mib": peak(ours), "torch_peak_mib": peak(best),
        "ours_ms_range": spread(ours), "torch_best_ms_range": spread(best), "torch_stock_ms_range": spread(stock),
        "ratio_best_range": ratio_spread(best), "ratio_stock_range": ratio_spread(stock),
        "torch_best_layout": layout, "rounds": len(ours), "parameters": first["parameters"],
        "ours_faults_a_step": statistics.median(r["faults_a_step"] for r in ours.values()),
        "torch": best[1]["torch"],
    }


def processor():
    try:
        with open("/proc/cpuinfo") as f:
            for line in f:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()


def table(rows):
    print(f"{'network':8}{'base':>5}{'volume':>10}{'batch':>6}{'type':>6}{'threads':>8}  "
          f"{'ours ms':>8}{'(range)':>16}{'best ms':>9}{'(range)':>16}{'stock ms':>9}"
          f"{'best/ours':>10}{'(range)':>14}{'stock/ours':>11}{'peak MiB':>9}{'theirs':>8}{'share':>6}")
    for r in rows:
        def between(key, digits):
            low, high = r[key]
            return f"({low:.{digits}f} - {high:.{digits}f})"
        print(f"{r['case']:8}{r['base']:5}{r['size']:>10}{r['batch']:6}{r['precision']:>6}{r['threads']:8}  "
              f"{r['ours_ms']:8.1f}{between('ours_ms_range', 0):>16}"
              f"{r['torch_best_ms']:9.1f}{between('torch_best_ms_range', 0):>16}{r['torch_stock_ms']:9.1f}"
              f"{r['ratio_best']:10.2f}{between('ratio_best_range', 2):>14}{r['ratio_stock']:11.2f}"
              f"{r['ours_peak_mib']:9.0f}{r['torch_peak_mib']:8.0f}{r['ours_peak_mib'] / r['torch_peak_mib']:6.2f}")


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--faster", type=pathlib.Path)
    a.add_argument("--json")
    a.add_argument("work", nargs="?", type=pathlib.Path)
    c = a.parse_args()
    if c.faster:
        print(faster_layout(c.faster))
        return
    rows = [summary(row) for row in sorted(p for p in c.work.iterdir() if p.is_dir())]
    table(rows)
    version = rows[0]["torch"]
    settings = {
        "best": "glibc malloc that keeps pages (hugetlb=1, no mmap, no trim), the faster of contiguous and "
                "channels_last_3d, bf16 by torch.autocast",
        "stock": "as installed, contiguous, bf16 by torch.autocast",
    }
    print(f"medians over rounds of medians over steps; ratio = theirs / ours; PyTorch {version}")
    print(f"best: {settings['best']}; stock: {settings['stock']}")
    if c.json:
        text = json.dumps({"torch": version, "settings": settings,
                           "machine": {"processor": processor(), "cores": os.cpu_count()}, "rows": rows}, indent=1)
        with open(c.json, "w") as f:
            f.write(text + "\n")


if __name__ == "__main__":
    main()
