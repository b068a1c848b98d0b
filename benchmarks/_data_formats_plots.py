"""Plots of how formats scale: throughput against workers, one line per format, threads beside processes."""

from __future__ import annotations

import io
from html import escape
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

# One colour per format, and one line style per library that loads it.
COLOURS = {"npy": "#0b7a5c", "npz": "#2b6cb0", "npz deflated": "#b7791f", "torch.save": "#9b2c2c"}
STROKES = {"spdl-turbo": "-", "spdl 0.8.0": "--", "numpy": ":", "torch": ":"}


def figure(result: dict[str, Any]) -> Figure:
    """Draw both plots beside each other."""
    whole, both = plt.subplots(1, 2, figsize=(9, 4.6), sharey=True, layout="constrained")
    for axes, mode in zip(both, ("threads", "processes"), strict=True):
        for name, line in result["lines"].items():
            kind, _, by = name.rpartition(", ")
            axes.plot(result["workers"], line[mode], STROKES[by], color=COLOURS[kind], marker="o", ms=4, label=name)
        axes.set(xscale="log", yscale="log", xlabel=f"worker {mode}", title=f"by {mode}")
        axes.set_xticks(result["workers"], map(str, result["workers"]))
        axes.minorticks_off()
        axes.grid(visible=True, alpha=0.3)
    both[0].set_ylabel("items per second")
    whole.legend(*both[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return whole


def draw(result: dict[str, Any], table: str, folder: Path) -> None:
    """Write data_formats.png and data_formats.html, a self-contained page."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = figure(result)
    whole.savefig(folder / "data_formats.png", dpi=160)
    drawing = io.StringIO()
    # Leave out the date and random names, so that the same result gives the same file.
    with mpl.rc_context({"svg.hashsalt": "spdl"}):
        whole.savefig(drawing, format="svg", metadata={"Date": None})
    plt.close(whole)
    svg = drawing.getvalue()
    (folder / "data_formats.html").write_text(page(svg[svg.index("<svg") :], table, result["provenance"]))


def page(svg: str, table: str, provenance: dict[str, Any]) -> str:
    """Return the page: the plots, the figures and their origin."""
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows)
    heads = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    source = ", ".join(f"{key}: {value}" for key, value in provenance.items() if key != "versions")
    versions = ", ".join(f"{key} {value}" for key, value in provenance["versions"].items())
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Data formats</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }}
svg {{ width: 100%; height: auto; }} table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #d5dbe1; }}
th:first-child, td:first-child, td:nth-child(2) {{ text-align: left; }} footer {{ color: #6b7785; font-size: .9rem; }}
</style></head><body><h1>Data formats</h1>
<p>An image of 3x640x480 and its labels of 640x480, uint8: items per second through a pipeline, against workers.</p>
{svg}
<table><thead><tr>{heads}</tr></thead><tbody>
{cells}</tbody></table>
<footer>{escape(source)}; {escape(versions)}</footer></body></html>
"""
