"""Write the two headline jobs into their page, and into every page with other rates of images how its job differs.

The jobs are the steps "batch" and "normalise" of benchmarks/loaders.py: a folder of JPEG to 224x224 in batches of 32,
as bytes, and as normalised floats. Their figures are those of benchmarks/results/loaders.json, and of no other run. Why
normalising costs one loader more than another is in benchmarks/results/normalising.json.

Run `.venv/bin/python scripts/headline.py` after `scripts/loaders_table.py`; a test compares the pages with the results,
and fails if a page shows images per second that are listed nowhere here.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from sections import replace_section

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from _loader_contenders import BARE, OURS  # noqa: E402 - on the path added above.
from _report_tables import best, table, versioned  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
PAGE = "docs/case_studies/loaders.md"
README = "README.md"
BYTES, FLOATS = "batch", "normalise"
PYTORCH = "PyTorch DataLoader, Pillow"
CPU = ("user_ms_per_image", "system_ms_per_image")

RATE = re.compile(r"images/s\b|photos/s\b|images per second")
NO_FIGURES = (
    "docs/tutorial.md",
    "docs/reference/command_line.md",
    "docs/video.md",
)
"""Pages that speak of the rate of images, and show none."""

OTHER_JOBS = {
    "docs/dropin.md": (
        "Here every loader has PyTorch's interface, with labels, and one worker for each core; there PyTorch has its "
        "best number of workers, which is more. Ours was built with our own JPEG decoder, and there on the system's."
    ),
    "docs/loaders.md": (
        "Here photos are cropped at random and flipped. Ours decodes no more than the crop, and Pillow the whole "
        "photo, so the ratio is larger."
    ),
    "docs/case_studies/images.md": (
        "The whole loaders here do the first of them, but load a fixed number of images, their start included, and "
        "ours was built with our own JPEG decoder, which is faster than the system's, which it had there."
    ),
    "docs/migration.md": (
        "Here a dataset gives photos with labels one by one, as a program does that moves from PyTorch, and the "
        "start of workers counts. Ours decodes them one by one as well, instead of in one call for a batch."
    ),
    "docs/examples/migration.md": (
        "Here a dataset gives photos with labels one by one, as a program does that moves from PyTorch, and the "
        "start of workers counts. Ours decodes them one by one as well, instead of in one call for a batch."
    ),
    "docs/examples/multi_thread_preprocessing.md": (
        "Here a dataset gives labels, too, as torchvision's do, and starting the workers counts. The work is nearly the"
        " same, and so are the ratios."
    ),
    "docs/examples/headspace.md": "Here a network trains on the batches, which takes most of the CPU.",
    "docs/measuring.md": (
        "Here the photos keep their aspect ratio on black, with the bicubic filter, which is more work, and a live "
        "display runs beside it."
    ),
    "docs/my_loop_waits.md": "Here a network trains on the batches, and the job is slow on purpose.",
}
"""Pages with other jobs: what differs, and why the ratio does."""


def label(name: str) -> str:
    """Return the label of a section."""
    return f"scripts/headline.py, {name}"


def recorded(name: str) -> dict[str, Any]:
    """Return a recorded run."""
    run: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return run


def rates(loaders: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Return each loader's images per second, as bytes and as floats, each at its best number of workers."""
    found = {}
    for name in loaders["contenders"]:
        rows = [best(loaders, name, step) for step in (BYTES, FLOATS)]
        if name != BARE and all(rows):
            found[name] = tuple(row["images_per_second"] for row in rows if row)
    return found  # type: ignore[return-value]


def lead(loaders: dict[str, Any]) -> tuple[float, float]:
    """Return how many times PyTorch's images our fastest loader loads, as bytes and as floats."""
    found = rates(loaders)
    ours = [max(found[name][at] for name in OURS if name in found) for at in (0, 1)]
    return ours[0] / found[PYTORCH][0], ours[1] / found[PYTORCH][1]


def jobs(loaders: dict[str, Any]) -> str:
    """Return the table of both jobs."""
    lines = [
        (versioned(loaders, name), f"{first:,.0f}", f"{second:,.0f}", f"{1 - second / first:.0%}")
        for name, (first, second) in rates(loaders).items()
    ]
    header = ("loader", "bytes, images/s", "normalised, images/s", "what normalising takes away")
    origin = loaders["provenance"]
    as_bytes, as_floats = lead(loaders)
    return (
        f"{table(header, lines)}\nOur fastest loader yields {as_bytes:.2f} times the images of PyTorch's DataLoader"
        f" with Pillow as bytes, and {as_floats:.2f} times as many as normalised floats. Each loader is at its best"
        f" number of workers; {origin['date'][:10]}, commit {origin['commit']}, as below. A few percent are noise.\n"
    )


def normalising(run: dict[str, Any], loaders: dict[str, Any]) -> str:
    """Return the table of what normalising costs, and the sentences that follow from it."""
    rows = {(row["loader"], row["case"]): row for row in run["rows"]}
    names = {"pytorch": PYTORCH, "ours": "spdl-turbo, load_image_batch"}
    lines = [
        (
            f"{names[loader]}: {case}",
            *(f"{row[key]:.2f}" for key in CPU),
            f"{row['page_faults_per_image']:,.0f}",
        )
        for (loader, case), row in rows.items()
    ]

    def added(loader: str, case: str) -> tuple[float, float]:
        """Return the CPU time that a case adds to the bytes, in milliseconds, and how much of it is the kernel's."""
        parts = [rows[loader, case][key] - rows[loader, "bytes"][key] for key in CPU]
        return sum(parts), parts[1]

    def busy(loader: str) -> float:
        return sum(rows[loader, "bytes"][key] for key in CPU)

    arithmetic, handed, whole = (
        added("pytorch", case) for case in ("floats, not handed over", "floats of any value", "floats")
    )
    ours, by_numpy = added("ours", "floats"), added("ours", "floats, by numpy")
    origin = run["provenance"]
    header = ("case", "CPU ms, program", "CPU ms, kernel", "page faults")
    workers = run["workers"]
    few = [
        row
        for step in (BYTES, FLOATS)
        for row in loaders["rows"]
        if (row["contender"], row["step"], row["workers"]) == (PYTORCH, step, workers)
    ]
    cpu, speed = ([row[key] for row in few] for key in ("cpu_ms_per_image", "images_per_second"))
    at_best = rates(loaders)[PYTORCH]
    return (
        f"{table(header, lines)}\nPer image, normalising adds {whole[0]:.2f} ms of CPU to PyTorch's"
        f" {busy('pytorch'):.2f}, which is {whole[0] / busy('pytorch'):.0%}. The arithmetic alone adds"
        f" {arithmetic[0]:.2f} ms, and handing over floats that nobody has computed {handed[0]:.2f} ms,"
        f" {handed[1]:.2f} of them in the kernel. To ours it adds {ours[0]:.2f} ms to {busy('ours'):.2f}, which is"
        f" {ours[0] / busy('ours'):.0%}; done by numpy after the call it would add {by_numpy[0]:.2f} ms.\n\nMore CPU"
        f" time per image means fewer images. In the run above, PyTorch with {workers} workers takes {cpu[0]:.2f} and"
        f" {cpu[1]:.2f} ms, and falls from {speed[0]:,.0f} to {speed[1]:,.0f} images/s on 2 cores. At its best number"
        f" of workers it falls further, from {at_best[0]:,.0f} to {at_best[1]:,.0f}: bytes gain by more processes than"
        f" cores, and floats hardly.\n\nMedians of {run['rounds']} rounds in turns, {workers} workers, on"
        f" {origin['cores']:g} cores ({origin['cpu']}), {origin['date'][:10]}, commit {origin['commit']}, by"
        " `python benchmarks/normalising.py`. The start of the processes is in these figures, so their differences"
        " count.\n"
    )


def note(page: str, loaders: dict[str, Any]) -> str:
    """Return the paragraph that says how the job of a page differs from the headline jobs."""
    as_bytes, as_floats = lead(loaders)
    target = os.path.relpath(ROOT / PAGE, (ROOT / page).parent)
    return (
        f"Do not compare these figures with the [two headline jobs]({target}#the-two-headline-jobs), in which ours"
        f" loads {as_bytes:.1f} times the images of PyTorch's DataLoader with Pillow as bytes, and {as_floats:.1f}"
        f" times as many as normalised floats. {OTHER_JOBS[page]}\n"
    )


def contents() -> dict[str, dict[str, str]]:
    """Return the sections of each page."""
    loaders = recorded("loaders")
    found = {page: {"note": note(page, loaders)} for page in OTHER_JOBS}
    found[PAGE] = {"jobs": jobs(loaders), "normalising": normalising(recorded("normalising"), loaders)}
    return found


def with_contents(text: str, sections: dict[str, str]) -> str:
    """Return a page with these sections."""
    for name, content in sections.items():
        text = replace_section(text, label(name), content)
    return text


def pages_with_rates() -> set[str]:
    """Return the pages that show how many images come in a second."""
    pages = [ROOT / README, *(ROOT / "docs").rglob("*.md")]
    rates = {
        str(page.relative_to(ROOT))
        for page in pages
        if "_build" not in page.parts and RATE.search(page.read_text(encoding="utf-8"))
    }
    return rates - set(NO_FIGURES)


def main() -> None:
    """Update the pages."""
    for page, sections in contents().items():
        path = ROOT / page
        path.write_text(with_contents(path.read_text(encoding="utf-8"), sections), encoding="utf-8")


if __name__ == "__main__":
    main()
