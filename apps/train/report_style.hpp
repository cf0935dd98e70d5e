// SPDX-License-Identifier: Apache-2.0
// How the report looks, and the few lines of script that sort its table.
#pragma once

namespace bora::train {

// Colours of lines: Okabe and Ito's, told apart by the colour-blind; darker or lighter by theme.
inline constexpr const char* kReportStyle = R"(
:root { color-scheme: light dark; --ink: #1d2329; --soft: #5d6873; --page: #fff; --card: #f6f7f8;
  --edge: #d9dde1; --warn: #8a5a00; --bad: #a82a1e;
  --c0: #0072b2; --c1: #c65102; --c2: #00805e; --c3: #a3478a; --c4: #8a6d00; --c5: #3a7ea0 }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --soft: #9aa6b2;
  --page: #15191d; --card: #1e2429; --edge: #363e46; --warn: #e0b050; --bad: #ff8a7a;
  --c0: #56b4e9; --c1: #f08a3c; --c2: #3cc49a; --c3: #d98ac4; --c4: #e0c040; --c5: #8ecae6 } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 1180px; padding: 28px 20px 60px; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif }
h1 { font-size: 26px; line-height: 1.25; margin: 0; overflow-wrap: anywhere }
h2 { font-size: 18px; margin: 36px 0 12px; border-bottom: 1px solid var(--edge); padding-bottom: 5px }
p { margin: 6px 0; max-width: 75ch } .soft { color: var(--soft) } .bad { color: var(--bad) }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(240px, 1fr)); gap: 10px;
  margin: 20px 0 0; padding: 0 }
.tiles div { background: var(--card); border: 1px solid var(--edge); border-radius: 6px; padding: 9px 13px }
.tiles dt { color: var(--soft); font-size: 13px } .tiles dd { margin: 0; font-size: 20px; font-weight: 600 }
.tiles dd small { display: block; font-size: 13px; font-weight: 400; color: var(--soft) }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(500px, 100%), 1fr)); gap: 22px 26px }
svg { display: block; width: 100%; height: auto; overflow: visible }
svg text { fill: var(--ink); font-size: 12px } svg .name { font-size: 14px; font-weight: 600 }
svg .tick, svg .label { fill: var(--soft) } svg .end { text-anchor: end } svg .middle { text-anchor: middle }
svg .grid { stroke: var(--edge); stroke-width: 1 } svg .axis { stroke: var(--soft); stroke-width: 1 }
svg .mark { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 3 4 }
svg .line { fill: none; stroke-width: 1.8; stroke-linejoin: round } svg .band { stroke: none; opacity: .18 }
.line0 { stroke: var(--c0) } .line1 { stroke: var(--c1) } .line2 { stroke: var(--c2) }
.line3 { stroke: var(--c3) } .line4 { stroke: var(--c4) } .line5 { stroke: var(--c5) }
.band.line0, .dot.line0 { fill: var(--c0) } .band.line1, .dot.line1 { fill: var(--c1) }
.band.line2, .dot.line2 { fill: var(--c2) } .band.line3, .dot.line3 { fill: var(--c3) }
.band.line4, .dot.line4 { fill: var(--c4) } .band.line5, .dot.line5 { fill: var(--c5) } .dot { stroke: none }
figure { margin: 0 0 22px } figcaption { color: var(--soft); margin-bottom: 6px }
figure img { display: block; max-width: 100%; height: auto; background: #fff; border: 1px solid var(--edge); border-radius: 4px }
.wide { overflow-x: auto } .tall { max-height: 560px; overflow: auto; width: fit-content; max-width: 100%; border: 1px solid var(--edge); border-radius: 6px }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; min-width: 50% }
th, td { text-align: left; padding: 4px 14px 4px 10px; border-bottom: 1px solid var(--edge); vertical-align: top }
th { color: var(--soft); font-weight: 600; font-size: 13px } .tall th { position: sticky; top: 0; background: var(--card) }
td.n, th.n { text-align: right } th button { all: unset; cursor: pointer } th button:focus-visible { outline: 2px solid var(--c0) }
th[aria-sort=ascending] button::after { content: " \25b2" } th[aria-sort=descending] button::after { content: " \25bc" }
ul.warnings { padding-left: 20px } ul.warnings li { color: var(--warn); overflow-wrap: anywhere }
pre { background: var(--card); border: 1px solid var(--edge); border-radius: 6px; padding: 12px 14px; margin: 8px 0;
  font: 13px/1.45 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; overflow-x: auto }
.blocks { columns: 330px; column-gap: 14px } .blocks pre { margin: 0 0 12px; break-inside: avoid; white-space: pre-wrap; overflow-wrap: anywhere }
@media print { body { max-width: none; padding: 0; font-size: 11pt } .tall { max-height: none; overflow: visible }
  .charts > *, figure, tr, .tiles { break-inside: avoid } h2 { break-after: avoid } th button::after { content: "" } }
)";

// Sorts a table by a column of its head; the cells' data-v are numbers.  Without it the table
// stands in the order in which it was written.
inline constexpr const char* kReportScript = R"(
for (const table of document.querySelectorAll('table.sortable'))
  table.tHead.querySelectorAll('th').forEach((head, column) => {
    const button = document.createElement('button');
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener('click', () => {
      const down = head.getAttribute('aria-sort') === 'ascending';
      for (const other of table.tHead.querySelectorAll('th')) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const value = row => {
        const cell = row.cells[column];
        return 'v' in cell.dataset ? Number(cell.dataset.v) : cell.textContent;
      };
      const order = (a, b) => typeof a === 'number' ? a - b : a.localeCompare(b, undefined, { numeric: true });
      const rows = [...table.tBodies[0].rows].sort((a, b) => order(value(a), value(b)) * (down ? -1 : 1));
      table.tBodies[0].append(...rows);
    });
  });
)";

}  // namespace bora::train
