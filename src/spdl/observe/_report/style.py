"""The style sheet of a report, for light and dark screens and for paper."""

from __future__ import annotations

__all__ = ["STYLE"]

# The hues differ for eyes that confuse red and green, too.
STYLE = """
:root {
  color-scheme: light dark;
  --text: #1b1f24; --muted: #5c6670; --back: #ffffff; --panel: #f5f7f9; --rule: #d8dee4;
  --busy: #2f74c0; --starved: #7d8790; --blocked: #d9822b; --held: #8e5bb5; --items: #2a8f7a; --queue: #5b7fa6;
  --bad: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e6eaee; --muted: #9aa5b0; --back: #14181d; --panel: #1d232a; --rule: #36404a;
    --busy: #6aa9ee; --starved: #a4aeb8; --blocked: #f0a35a; --held: #bd92df; --items: #5cc7b0; --queue: #94b4d6;
    --bad: #ff8a80;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 15px/1.45 system-ui, sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 24px 20px 48px; }
h1 { font-size: 22px; margin: 0 0 8px; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 32px 0 6px; }
.verdict { font-size: 17px; margin: 0 0 16px; padding: 10px 14px; background: var(--panel);
  border-left: 4px solid var(--blocked); border-radius: 4px; overflow-wrap: anywhere; }
.note, .legend { color: var(--muted); margin: 0 0 10px; font-size: 13px; }
.legend span { margin-right: 18px; white-space: nowrap; }
.key { display: inline-block; width: 14px; height: 3px; margin-right: 6px; vertical-align: middle; }
.figures { display: flex; flex-wrap: wrap; gap: 10px; }
.figures div { background: var(--panel); border-radius: 6px; padding: 8px 14px; }
.figures b { display: block; font-size: 19px; font-variant-numeric: tabular-nums; }
.figures span { color: var(--muted); font-size: 12.5px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; }
thead th { color: var(--muted); font-size: 12.5px; font-weight: 500; padding: 4px 10px; vertical-align: bottom; }
.charts { width: 100%; }
.charts tbody th { width: 190px; min-width: 120px; font-size: 13px; overflow-wrap: anywhere; padding-right: 10px; }
.charts td { width: 27.5%; min-width: 240px; padding: 4px; }
.charts tr + tr td, .charts tr + tr th, .totals tbody tr { border-top: 1px solid var(--rule); }
.totals td, .totals tbody th { padding: 5px 10px; }
.totals tbody th { max-width: 260px; min-width: 130px; overflow-wrap: anywhere; }
.number { text-align: right; white-space: nowrap; }
thead .number { white-space: normal; }
svg { display: block; }
.chart { width: 100%; }
svg text { fill: var(--text); font: 12px system-ui, sans-serif; font-variant-numeric: tabular-nums; }
svg .tick { fill: var(--muted); font-size: 9px; }
svg .fill, svg .small { fill: var(--muted); font-size: 11px; }
svg .name { font-weight: 600; font-size: 13px; }
svg .bad { fill: var(--bad); }
.box { fill: var(--panel); stroke: var(--rule); }
.box.limit { stroke: var(--blocked); stroke-width: 2.5; }
.track { fill: var(--rule); }
.edge { fill: none; stroke: var(--muted); stroke-width: 1.5; }
.grid { stroke: var(--rule); stroke-width: 0.6; }
.line { fill: none; stroke-width: 1.4; stroke-linejoin: round; }
.area { stroke: none; }
polygon.area { fill-opacity: 0.22; }
.line.busy { stroke: var(--busy); } .area.busy, .dot.busy { fill: var(--busy); }
.line.starved { stroke: var(--starved); } .area.starved, .dot.starved { fill: var(--starved); }
.line.blocked { stroke: var(--blocked); } .area.blocked, .dot.blocked { fill: var(--blocked); }
.line.held { stroke: var(--held); } .area.held, .dot.held { fill: var(--held); }
.line.items { stroke: var(--items); } .area.items, .dot.items { fill: var(--items); }
.line.queue { stroke: var(--queue); } .area.queue, .dot.queue { fill: var(--queue); }
.area.waits { fill: var(--starved); }
.key.busy { background: var(--busy); } .key.starved { background: var(--starved); }
.key.blocked { background: var(--blocked); } .key.held { background: var(--held); }
"""
