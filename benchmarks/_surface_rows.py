"""The rows of the benchmark of the engine's instrumentation and subprocesses: work, contenders and claims."""

from __future__ import annotations

from _engine_rows import ITEMS, OURS, REFERENCE, Claim, Row, Work

RATES = ("items_per_second", "megabytes_per_second")


def _in_subprocess(title: str, items: tuple[int, int], mark: float, work: str, **arguments: object) -> Row:
    works = {
        OURS: arguments | {"work": work, "items": items[0]},
        REFERENCE: arguments | {"work": work, "items": items[1]},
    }
    return Row(title, RATES, works, (Claim("items_per_second", "at least", mark, REFERENCE),))


def _piped(title: str, items: tuple[int, int], mark: float, kind: str, size: int) -> Row:
    return _in_subprocess(title, items, mark, "in_subprocess.pipeline", kind=kind, size=size, stages=3, threads=4)


def _iterated(title: str, items: tuple[int, int], mark: float, kind: str, size: int) -> Row:
    return _in_subprocess(title, items, mark, "in_subprocess.iterable", kind=kind, size=size)


def _surrounded(hooks: str, items: int) -> Work:
    work = {"work": "surrounded.pipeline", "stages": 3, "concurrency": 4, "threads": 8}
    return work | {"hooks": hooks, "items": items}


WITHOUT = f"{OURS}, without hooks"

KB32, MB8 = 32 << 10, 8 << 20

# A second of work per round, or half a second.
ROWS: dict[str, Row] = {
    "subprocess-bytes": _piped("subprocess pipeline of 3 stages, 32 kB of bytes", (20_000, 2_000), 3, "bytes", KB32),
    "subprocess-arrays": _piped("the same, arrays of 32 kB", (20_000, 2_000), 3, "array", KB32),
    "subprocess-large": _piped("the same, arrays of 8 MB", (200, 80), 2, "array", MB8),
    "iterate-bytes": _iterated("an iterable in a subprocess, 32 kB of bytes", (20_000, 8_000), 2, "bytes", KB32),
    "iterate-arrays": _iterated("the same, arrays of 32 kB", (20_000, 8_000), 2, "array", KB32),
    "iterate-large": _iterated("the same, arrays of 8 MB", (200, 80), 2, "array", MB8),
    "hooks": Row(
        "3 no-op stages, each inside a hook that counts",
        ITEMS,
        {OURS: _surrounded("counting", 10_000), REFERENCE: _surrounded("counting", 2_000)},
        (Claim("items_per_second", "at least", 1, REFERENCE),),
    ),
    "statistics": Row(
        "3 no-op stages, measured by the default `TaskStatsHook` and `StatsQueue`",
        ITEMS,
        {OURS: _surrounded("default", 150_000), WITHOUT: _surrounded("none", 150_000)},
        # Other load on the machine comes in bursts, and this is about a few percent.
        (Claim("items_per_second", "at least", 0.95, WITHOUT),),
        beside="the same with `task_hook_factory=lambda info: []`",
        times=5,
    ),
    "profile-demo": Row(
        "`profile_pipeline` of the demo's pipeline (batches of 32 photos, decoded and resized)",
        ("seconds",),
        {OURS: {"work": "profiling.demo", "batch_size": 32, "size": 224}},
        (Claim("seconds", "at most", 10),),
    ),
}
