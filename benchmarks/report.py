"""Put the benchmarks' results side by side: tables, plots, and a summary that names the rows we lost.

It reads those of loaders.json, data_formats.json, engine.json, noisy_neighbour.json, video.json and audio.json in a
folder that are named and exist. It writes report.md, a self-contained report.html, and the plots as PNG beside them.

Run it as `python benchmarks/report.py FOLDER [SECTION...]`.
"""

from __future__ import annotations

import argparse
import json
from html import escape
from pathlib import Path
from typing import Any

from _report_plots import FIGURES, png_and_svg
from _report_tables import BY_ROW, SECTIONS, judged
from spdl.cli._common.console import Console

STYLE = """body { font: 16px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto; padding: 0 1rem; }
svg { width: 100%; height: auto; } div { overflow-x: auto; } h2 { margin-top: 3rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #d5dbe1; }
th:first-child, td:first-child { text-align: left; } footer, .origin { color: #6b7785; font-size: .9rem; }"""


def origin(result: dict[str, Any]) -> str:
    """Return a sentence on the origin of the figures."""
    it = result["provenance"]
    versions = ", ".join(f"{name} {version}" for name, version in it["versions"].items())
    # Records hold only the name of the program.
    command = it["command"].replace("python ", "python benchmarks/", 1)
    return (
        f"Medians of {rounds(result)} rounds in turns, each in its own process, on {it['cores']:g} cores"
        f" ({it['cpu']}), Python {it['python']}, {versions}, {it['date']}, commit {it['commit']}: `{command}`"
    )


def rounds(result: dict[str, Any]) -> str:
    """Return the number of rounds. In results that are merged from several runs, each row has its own."""
    each = [result["rounds"]] if "rounds" in result else sorted({row["rounds"] for row in result["rows"].values()})
    return " or ".join(map(str, each))


def html_of(markdown: str) -> str:
    """Return tables, and the lines around them, as HTML."""
    parts: list[str] = []
    lines = markdown.splitlines()
    for index, line in enumerate(lines):
        if not line.startswith("|"):
            parts.append(f"<p>{escape(line.removeprefix('* '))}</p>" if line else "")
            continue
        if set(line) <= set("|-: "):
            continue
        head = index + 1 < len(lines) and set(lines[index + 1]) <= set("|-: ") and lines[index + 1].startswith("|")
        cell = "th" if head else "td"
        cells = "".join(f"<{cell}>{escape(it.strip())}</{cell}>" for it in line.strip("|").split("|"))
        parts.append(("<div><table>" if head else "") + f"<tr>{cells}</tr>")
        if index + 1 == len(lines) or not lines[index + 1].startswith("|"):
            parts.append("</table></div>")
    return "\n".join(part for part in parts if part)


def summary(results: dict[str, dict[str, Any]]) -> list[str]:
    """Return the lines at the end: the lost rows, and the contenders that did not run."""
    lines = []
    for section, result in results.items():
        rows = judged(section, result)
        lines.append(f"{SECTIONS[section][0]}: {sum(rows.values())} of {len(rows)} comparisons are won")
        lines += [f"  lost: {row}" for row, met in rows.items() if not met]
        absent = result.get("absent") or {}
        for name, reason in absent.items() if isinstance(absent, dict) else [("spdl 0.8.0", absent)]:
            lines.append(f"  not run: {name}: {reason}")
        if section in BY_ROW:
            each = [(row["title"], *it) for row in result["rows"].values() for it in row.get("absent", {}).items()]
            lines += [f"  not run: {name}, {title}: {reason}" for title, name, reason in each]
    return lines


def main() -> None:
    """Write the report and print the summary."""
    parser = argparse.ArgumentParser(description="Write the benchmarks' results as tables and plots.")
    parser.add_argument("folder", type=Path, help="where their JSON files are")
    parser.add_argument("sections", nargs="*", default=list(SECTIONS), metavar="SECTION", help="default: %(default)s")
    options = parser.parse_args()
    if unknown := [it for it in options.sections if it not in SECTIONS]:
        parser.error(f"there is no section {unknown[0]!r}, only {', '.join(SECTIONS)}")
    folder = options.folder
    results = {
        section: json.loads((folder / f"{section}.json").read_text())
        for section in SECTIONS
        if section in options.sections and (folder / f"{section}.json").exists()
    }
    markdown, page = ["# Benchmarks\n"], []
    for section, result in results.items():
        title, to_table = SECTIONS[section]
        table = to_table(result)
        markdown += [f"## {title}\n", table, f"{origin(result)}\n"]
        page += [f"<h2>{title}</h2>", f"<p class=origin>{escape(origin(result))}</p>", html_of(table)]
        for name, draw in FIGURES[section].items():
            png, svg = png_and_svg(draw(result))
            (folder / f"{name}.png").write_bytes(png)
            markdown.append(f"![{title}]({name}.png)\n")
            page.append(svg)
    lines = summary(results)
    markdown += ["## Summary\n", *[f"* {line.strip()}" for line in lines], ""]
    (folder / "report.md").write_text("\n".join(markdown))
    (folder / "report.html").write_text(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Benchmarks</title>\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<style>\n{STYLE}\n</style></head><body>\n<h1>Benchmarks</h1>\n"
        f"<ul>\n{''.join(f'<li>{escape(line.strip())}</li>' for line in lines)}\n</ul>\n"
        + "\n".join(page)
        + "\n</body></html>\n"
    )
    console = Console()
    for line in lines:
        console.print(line)


if __name__ == "__main__":
    main()
