// SPDX-License-Identifier: Apache-2.0
// bench_data: how fast patches come out of HDF5 files, beside h5py and the machine's memory.
// docs/data/speed.md says how to read it.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/data_reads.hpp"
#include "apps/bench/h5py_peer.hpp"
#include "core/build_info.hpp"
#include "core/config.hpp"
#include "core/log.hpp"
#include "data/chunk_shape.hpp"
#include "data/hdf5_chunks.hpp"
#include "data/jsonl.hpp"
#include "data/output_place.hpp"

namespace bora::bench {
namespace {

struct DataBenchConfig {
  std::string samples = "samples/urban-wind";
  std::string folder;
  std::string h5py;
  std::string script = "apps/bench/data_h5py.py";
  int64_t size = 256;
  int64_t patch = 64;
  int64_t n_files = 2;
  int64_t patches = 48;
  int64_t rounds = 7;
  int64_t threads = 2;
  int64_t chunk_cache_mib = data::hdf5::kDefaultChunkCacheBytes >> 20;
  std::vector<std::string> chunks = {"64x64x64", "32x32x32", "1x256x256"};
  std::vector<std::string> codecs = {"deflate4+shuffle"};
  std::string json;
  static constexpr auto fields() {
    return std::tuple{
        field("samples", &DataBenchConfig::samples, "wind data whose values fill the files"),
        field("folder", &DataBenchConfig::folder,
              "where the files are made and removed; empty: the system's folder for such"),
        field("h5py", &DataBenchConfig::h5py, "a Python with h5py, to compare with; empty: none"),
        field("script", &DataBenchConfig::script, "the peer's program"),
        field("size", &DataBenchConfig::size, "cells of a file's field along each axis", positive),
        field("patch", &DataBenchConfig::patch, "cells of a patch along each axis", positive),
        field("n_files", &DataBenchConfig::n_files, "files of each layout", positive),
        field("patches", &DataBenchConfig::patches, "patches of a round", positive),
        field("rounds", &DataBenchConfig::rounds, "each reads with ours and with h5py", positive),
        field("threads", &DataBenchConfig::threads, "our threads, and the peer's processes",
              positive),
        field("chunk_cache_mib", &DataBenchConfig::chunk_cache_mib,
              "ours, for all files; h5py has 8 MiB (HDF5 1: 1 MiB) for each file and process",
              between(0, 1 << 20)),
        field("chunks", &DataBenchConfig::chunks, "chunks of the compressed layouts, AxBxC"),
        field("codecs", &DataBenchConfig::codecs, "none, deflateN or deflateN+shuffle"),
        field("json", &DataBenchConfig::json, "also write the result to this file (JSON lines)")};
  }
};

class Folder {
 public:
  explicit Folder(const std::string& where) {
    const auto base =
        where.empty() ? std::filesystem::temp_directory_path() : std::filesystem::path(where);
    path_ = (base / ("bora-bench-" + std::to_string(::getpid()))).string();
    data::make_folder(path_, "folder '" + path_ + "'");
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

struct Spread {
  double median = 0, least = 0, most = 0;
};
Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}
std::string text_of(const Spread& s, const char* format = "%.2f") {
  char text[96];
  const std::string all = std::string(format) + " [" + format + ", " + format + "]";
  std::snprintf(text, sizeof(text), all.c_str(), s.median, s.least, s.most);
  return text;
}

Dims3 dims_from(const std::string& text) {
  long a = 0, b = 0, c = 0;
  char end = 0;
  if (std::sscanf(text.c_str(), "%ldx%ldx%ld%c", &a, &b, &c, &end) != 3 || a < 1 || b < 1 || c < 1)
    throw UsageError("bench_data: chunk '" + text + "', wanted AxBxC");
  return {a, b, c};
}

data::hdf5::Storage storage_from(const std::string& chunk, const std::string& codec) {
  data::hdf5::Storage s;
  const Dims3 c = dims_from(chunk);
  s.chunk = {c.d, c.h, c.w};
  int level = 0;
  if (codec != "none" && std::sscanf(codec.c_str(), "deflate%d", &level) != 1)
    throw UsageError("bench_data: codec '" + codec +
                     "', wanted none, deflateN or deflateN+shuffle");
  s.deflate = level;
  s.shuffle = codec.ends_with("+shuffle");
  return s;
}

class Bench {
 public:
  Bench(const DataBenchConfig& c, H5pyPeer* peer)
      : c_(c), peer_(peer), folder_(c.folder), threads_(static_cast<int>(c.threads)) {
    BORA_CHECK(c.patch <= c.size, "bench_data: a patch of ", c.patch, " cells in files of ",
               c.size);
    if (!c.json.empty()) json_.emplace(c.json, data::OpenMode::replace);
    for (int64_t i = 0; i < c.n_files; ++i)
      fields_.push_back(field_of_samples(c.samples, Dims3::all(c.size), static_cast<int>(7 * i)));
  }

  void chunked(const std::string& chunk, const std::string& codec) {
    const std::vector<std::string> files = write(storage_from(chunk, codec));
    std::vector<double> ours, theirs, ratios;
    int64_t wanted = 0, decoded = 0;
    patches_interleaved(files, ours, theirs, ratios, wanted, decoded);
    // What one core can unpack: whole chunks, each once.
    const std::vector<Patch> whole(1, {0, {}, Dims3::all(c_.size)});
    std::vector<double> unpack;
    {
      const data::hdf5::NoChunkCache no_cache;
      for (int i = 0; i < 3; ++i)
        unpack.push_back(field_bytes() / read_patches(files, whole, 1).seconds);
    }
    const double rate = spread_of(unpack).most;
    const double amplification =
        decoded > 0 ? static_cast<double>(decoded) / static_cast<double>(wanted) : 1;
    const double mean =
        data::read_amplification(Dims3::all(c_.size), dims_from(chunk), Dims3::all(c_.patch));
    const double floor = rate * threads_ / amplification / patch_bytes();
    const double stored = static_cast<double>(std::filesystem::file_size(files[0]));
    std::printf("%-12s %-18s %6.2f %22s %22s %22s %7.2f %9.0f %8.0f%%\n", chunk.c_str(),
                codec.c_str(), field_bytes() / stored, text_of(spread_of(ours), "%.1f").c_str(),
                text_of(spread_of(theirs), "%.1f").c_str(), text_of(spread_of(ratios)).c_str(),
                amplification, rate * 1e-6, 100 * spread_of(ours).median / floor);
    if (mean > data::kMuchAmplification)  // whatever is kept of them
      log_warn("chunks of ", chunk, " do not fit patches of ", Dims3::all(c_.patch), ": ", mean,
               " times the wanted bytes are read and unpacked; unet3d data convert "
               "writes chunks that fit");
    if (json_)
      json_->write({{"kind", "chunked"},
                    {"chunk", chunk},
                    {"codec", codec},
                    {"size_ratio", field_bytes() / stored},
                    {"patches_per_s", ours},
                    {"h5py_patches_per_s", theirs},
                    {"ratio_median", spread_of(ratios).median},
                    {"ratios", ratios},
                    {"chunk_cache_mib", c_.chunk_cache_mib},
                    {"amplification", amplification},
                    {"amplification_mean", mean},
                    {"unpack_bytes_per_s", rate},
                    {"floor_share", spread_of(ours).median / floor}});
  }

  void contiguous() {
    const std::vector<std::string> files = write({});
    std::vector<double> ours, theirs, ratios;
    int64_t wanted = 0, decoded = 0;
    patches_interleaved(files, ours, theirs, ratios, wanted, decoded);
    std::printf("\ncontiguous: patches/s ours %s, h5py %s, ratio %s\n",
                text_of(spread_of(ours), "%.0f").c_str(),
                text_of(spread_of(theirs), "%.0f").c_str(), text_of(spread_of(ratios)).c_str());
    // Whole files, each thread its half; the same bytes by memcpy and by the system's read alone.
    std::vector<Patch> halves;
    for (int f = 0; f < static_cast<int>(files.size()); ++f)
      for (int64_t t = 0; t < c_.threads; ++t) {
        const int64_t a = c_.size * t / c_.threads, b = c_.size * (t + 1) / c_.threads;
        halves.push_back({f, {a, 0, 0}, {b - a, c_.size, c_.size}});
      }
    const double bytes = field_bytes() * static_cast<double>(files.size());
    std::vector<double> read, copy, plain, of_copy, of_plain;
    for (int64_t r = 0; r < c_.rounds; ++r) {
      copy.push_back(bytes / copy_time_s(threads_, static_cast<int64_t>(bytes)));
      read.push_back(bytes / read_patches(files, halves, threads_).seconds);
      double s = 0;
      for (const std::string& f : files) s += plain_read_time_s(f, threads_);
      plain.push_back(bytes / s);
      of_copy.push_back(read.back() / copy.back());
      of_plain.push_back(read.back() / plain.back());
    }
    const auto gb = [](std::vector<double> v) {
      for (double& x : v) x *= 1e-9;
      return text_of(spread_of(v));
    };
    std::printf(
        "contiguous, whole files from the page cache, %d threads, GB/s: ours %s, memcpy %s, "
        "read() alone %s\n  of memcpy %s, of read() %s\n",
        threads_, gb(read).c_str(), gb(copy).c_str(), gb(plain).c_str(),
        text_of(spread_of(of_copy)).c_str(), text_of(spread_of(of_plain)).c_str());
    if (json_)
      json_->write({{"kind", "contiguous"},
                    {"patches_per_s", ours},
                    {"h5py_patches_per_s", theirs},
                    {"ratio_median", ratios.empty() ? 0 : spread_of(ratios).median},
                    {"read_bytes_per_s", read},
                    {"copy_bytes_per_s", copy},
                    {"plain_read_bytes_per_s", plain},
                    {"of_copy_median", spread_of(of_copy).median},
                    {"of_plain_median", spread_of(of_plain).median}});
  }

  void head() const {
    std::printf("%s\n%ld files of %ld^3 f32 (%s), random patches of %ld^3, %d threads",
                build_info_text().c_str(), static_cast<long>(c_.n_files),
                static_cast<long>(c_.size), c_.samples.c_str(), static_cast<long>(c_.patch),
                threads_);
    if (peer_ != nullptr)
      std::printf(" against %d processes of %s", threads_, peer_->version().c_str());
    std::printf(
        "; %ld rounds of %ld patches, median [least, most]; %ld MiB of unpacked chunks kept\n",
        static_cast<long>(c_.rounds), static_cast<long>(c_.patches),
        static_cast<long>(c_.chunk_cache_mib));
    std::printf("%-12s %-18s %6s %22s %22s %22s %7s %9s %9s\n", "chunk", "codec", "packed",
                "patches/s", "h5py patches/s", "ratio", "amplif.", "MB/s core", "of floor");
  }

 private:
  double field_bytes() const { return 4.0 * static_cast<double>(Dims3::all(c_.size).count()); }
  double patch_bytes() const { return 4.0 * static_cast<double>(Dims3::all(c_.patch).count()); }

  std::vector<std::string> write(const data::hdf5::Storage& storage) {
    std::vector<std::string> files;
    for (size_t i = 0; i < fields_.size(); ++i) {
      files.push_back(folder_.file(std::to_string(i) + ".h5"));
      write_field(files.back(), fields_[i], storage);
    }
    if (peer_ != nullptr) peer_->open(files);
    return files;
  }

  void patches_interleaved(const std::vector<std::string>& files, std::vector<double>& ours,
                           std::vector<double>& theirs, std::vector<double>& ratios,
                           int64_t& wanted, int64_t& decoded) {
    const std::string table = folder_.file("table.txt");
    const auto n = static_cast<double>(c_.patches);
    for (int64_t r = -1; r < c_.rounds; ++r) {  // the first one warms up
      const std::vector<Patch> patches =
          random_patches(static_cast<int>(c_.patches), static_cast<int>(files.size()),
                         Dims3::all(c_.size), Dims3::all(c_.patch), static_cast<uint64_t>(r + 1));
      write_table(table, patches);
      const int64_t wanted_before = data::hdf5::bytes_read();
      const int64_t decoded_before = data::hdf5::detail::chunk_bytes_decoded();
      const Reading mine = read_patches(files, patches, threads_);
      wanted += data::hdf5::bytes_read() - wanted_before;
      decoded += data::hdf5::detail::chunk_bytes_decoded() - decoded_before;
      if (r >= 0) ours.push_back(n / mine.seconds);
      if (peer_ == nullptr) continue;
      const H5pyPeer::Answer other = peer_->read(table);
      BORA_CHECK(std::abs(other.sum - mine.sum) <= 1e-9 * std::abs(mine.sum),
                 "bench_data: h5py read other values: sum ", other.sum, ", ours ", mine.sum);
      if (r < 0) continue;
      theirs.push_back(n / other.seconds);
      ratios.push_back(other.seconds / mine.seconds);
    }
    if (peer_ == nullptr) theirs.assign(1, 0), ratios.assign(1, 0);
  }

  const DataBenchConfig& c_;
  H5pyPeer* peer_;
  Folder folder_;
  int threads_;
  std::vector<Tensor> fields_;
  std::optional<data::JsonlWriter> json_;
};

int run(const std::vector<std::string>& args) {
  DataBenchConfig c;
  const ConfigArgs given = config_parse_args(
      c, "bench_data", args,
      {.about = "Times the reading of patches from HDF5 files.", .positionals = {}});
  if (!given.help.empty()) {
    std::fputs(given.help.c_str(), stdout);
    return 0;
  }
  data::hdf5::set_chunk_cache(c.chunk_cache_mib << 20);
  std::unique_ptr<H5pyPeer> peer;
  if (!c.h5py.empty())
    peer = std::make_unique<H5pyPeer>(c.h5py, c.script, static_cast<int>(c.threads));
  Bench bench(c, peer.get());
  bench.head();
  for (const std::string& codec : c.codecs)
    for (const std::string& chunk : c.chunks) bench.chunked(chunk, codec);
  bench.contiguous();
  return 0;
}

}  // namespace
}  // namespace bora::bench

int main(int argc, char** argv) {
  try {
    return bora::bench::run({argv + 1, argv + argc});
  } catch (const bora::UsageError& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
