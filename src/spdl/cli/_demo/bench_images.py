"""`spdl bench images` and `spdl demo`: how many images this machine loads, and other loaders beside it."""

from __future__ import annotations

import logging
import os
from argparse import Namespace
from pathlib import Path

import spdl
from spdl.cli._common.console import INTERRUPTED, CommandError, Console, check_writable, console_beside, write_figures
from spdl.cli._common.machine import abbreviated, provenance
from spdl.cli._common.text import mebibytes, milliseconds, number, printable, several
from spdl.cli._demo.comparison import Comparison, compare, comparison_figures, comparison_table, draw_chart, headline
from spdl.cli._demo.live_run import (
    BATCHES_AHEAD,
    INTERPOLATION,
    RESIZE_MODE,
    LiveRun,
    default_threads,
    live_run,
    stage_table,
)
from spdl.cli._demo.photos import demo_photos, list_images
from spdl.cli._demo.turn import ImageWork

FAILURES_SHOWN = 5


def bench_images(options: Namespace) -> int:
    """Load a folder's images for some seconds, show where the time goes, compare, and write the reports."""
    console = console_beside(options.json)
    folder: Path = options.folder
    paths = list_images(folder)
    workers = options.workers or default_threads()
    _check_memory(options, workers)
    _check_places(options)
    job = (
        f"{several(len(paths), 'file')} in {printable(abbreviated(folder))}, batches of {options.batch_size},"
        f" resized to {options.size}x{options.size} ({RESIZE_MODE}, {INTERPOLATION})"
    )
    console.print(f"spdl-turbo {spdl.__version__}: {job}, {several(workers, 'thread')}, {options.seconds:g} s")
    work = ImageWork(paths, options.batch_size, options.size)
    run = live_run(work, workers=workers, seconds=options.seconds, console=console)
    if not (run.images or run.interrupted):
        path, reason = next(iter(run.failures.items()))
        raise CommandError(
            f"none of the first {min(run.files_read, len(paths)):,} of {several(len(paths), 'image')} in {folder} could"
            f" be loaded, for instance {path}: {reason}. Give a folder with intact images."
        )
    _print_live_run(run, work, console)
    comparison = None
    if not (run.interrupted or options.no_peers):
        console.print()
        # Use only files that have loaded. A bad file would end the others' turns; one not read yet is not in the cache.
        loaded = [path for path in paths[: run.files_read] if path not in run.failures]
        comparison = compare(
            ImageWork(loaded, work.batch_size, work.size),
            workers=options.workers,
            seconds=options.seconds,
            rounds=options.rounds,
            console=console,
            install_large=options.peers,
        )
        if comparison.contenders:
            console.print()
            console.table(comparison_table(comparison))
    figures = {
        "provenance": provenance(),
        "job": {
            "folder": abbreviated(folder),
            "files": len(work.paths),
            "batch_size": work.batch_size,
            "size": work.size,
            "resize_mode": RESIZE_MODE,
            "interpolation": INTERPOLATION,
        },
        "live_run": run.figures(),
        "comparison": None if comparison is None else comparison_figures(comparison),
    }
    write_figures(options.json, figures, console)
    if comparison and comparison.contenders:
        _write_chart(options.report / "report.png", comparison, console)
    return INTERRUPTED if run.interrupted or (comparison and comparison.interrupted) else 0


def _check_memory(options: Namespace, workers: int) -> None:
    """Refuse batches that do not fit into memory, before the system kills the process because of them."""
    alive = workers + BATCHES_AHEAD + 1
    needed = alive * options.batch_size * options.size**2 * 3
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        raise CommandError(
            f"{alive} batches of {options.batch_size} images of {options.size}x{options.size} take"
            f" {mebibytes(needed)}, this machine has {mebibytes(memory)}: lower --size, --batch-size or --workers."
        )


def _check_places(options: Namespace) -> None:
    check_writable(options.json)
    if not options.no_peers:
        try:
            options.report.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(
                f"--report {options.report} cannot be made ({error.strerror}): name a folder."
            ) from error
        if not os.access(options.report, os.W_OK):
            raise CommandError(f"--report {options.report} cannot be written to: name a folder that can.")


def _print_live_run(run: LiveRun, work: ImageWork, console: Console) -> None:
    title = f"Stages of the live run (an item is a batch of {work.batch_size})"
    console.print()
    console.table(stage_table(run.statistics, title))
    facts = [
        ("bottleneck", run.statistics.bottleneck),
        ("images/s", f"{number(run.images_per_second)}  ({run.images:,} images in {run.seconds:.2f} s)"),
    ]
    if run.images:
        rate = number(run.images / run.cpu_seconds)
        facts.append(("CPU-s per image", f"{run.cpu_seconds_per_image:.6f}  ({rate} images per CPU-second)"))
        facts.append(("first batch", milliseconds(run.first_batch_seconds)))
    facts.append(("peak memory", f"{mebibytes(run.peak_memory_bytes)}  (this process, libraries included)"))
    if run.files_read < len(work.paths):
        facts.append(("files", f"{run.files_read:,} of {len(work.paths):,} were read in the time"))
    if run.failures:
        tried = min(run.files_read, len(work.paths))
        facts.append(
            ("failed", f"{several(len(run.failures), 'file')} of {tried:,} that were read, the others were loaded:")
        )
    console.facts(facts)
    for path, reason in list(run.failures.items())[:FAILURES_SHOWN]:
        console.print(f"  {path}: {reason}")
    if len(run.failures) > FAILURES_SHOWN:
        console.print(f"  and {len(run.failures) - FAILURES_SHOWN:,} more (--json FILE lists them all)")
    if run.interrupted:
        console.print("interrupted: the figures cover the run up to then")


def _write_chart(file: Path, comparison: Comparison, console: Console) -> None:
    # If the home folder is not writable, matplotlib would report at length which folder it uses instead.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        file.write_bytes(draw_chart(comparison, headline(comparison)))
    except ImportError:
        console.print(f"did not write {file}: drawing the chart needs matplotlib (pip install 'spdl-turbo[demo]')")
    else:
        console.print(f"wrote {file}")


def demo(options: Namespace) -> int:
    """Make the folder of photos if it does not exist yet, and run `spdl bench images` on it."""
    return bench_images(Namespace(**{**vars(options), "folder": demo_photos(console_beside(options.json))}))
