"""The rows of the engine's benchmark: work, contenders and claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

OURS, REFERENCE, BARE = "spdl-turbo", "spdl 0.8.0", "bare"

ITEMS = ("items_per_second",)
SPREAD = ("p50_microseconds", "p99_microseconds")

Work = dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """A claim about one contender's figure, alone or divided by another contender's.

    Attributes:
        figure: The name of the figure.
        relation: How the figure, or the quotient, should relate to the mark.
        mark: The mark. None if the figure is only reported.
        beside: The contender to divide by. None takes the figure itself.
        of: The contender whose figure it is.
    """

    figure: str
    relation: Literal["at least", "at most"]
    mark: float | None
    beside: str | None = None
    of: str = OURS


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        title: A description of the row, in words and Markdown.
        figures: The figures that the table shows for every contender.
        works: The work of each contender, in the form that `_engine_work` takes.
        claims: The claims that the outcome is judged by.
        beside: The comparison other than the reference, in words.
        calibrated: Whether the works take as an argument how many turns make a millisecond.
        times: How often the works are repeated in a round. Noise comes in bursts, and spoils only a few of many.
        cores: With fewer cores, the row is left out unless it is asked for, and nothing is claimed.
    """

    title: str
    figures: tuple[str, ...]
    works: dict[str, Work]
    claims: tuple[Claim, ...] = ()
    beside: str = ""
    calibrated: bool = False
    times: int = 1
    cores: int = 1


def _streaming(
    title: str, items: tuple[int, int], mark: float, *, bare: tuple[str, Work] | None = None, **arguments: Any
) -> Row:
    work = {"work": "stream.pipeline", "stages": 3, "concurrency": 4, "threads": 8, **arguments}
    works = {OURS: work | {"items": items[0]}, REFERENCE: work | {"items": items[1]}}
    if bare:
        works[BARE] = bare[1]
    claim = Claim("items_per_second", "at least", mark, REFERENCE)
    return Row(title, ITEMS, works, (claim,), bare[0] if bare else "")


def _sleeping(
    title: str,
    items: tuple[int, int],
    seconds: list[float],
    slots: list[int],
    threads: int,
    *,
    mark: float | None = 0.95,
) -> Row:
    work = {"work": "sleeping.pipeline", "seconds": seconds, "slots": slots, "threads": threads}
    works = {OURS: work | {"items": items[0]}, REFERENCE: work | {"items": items[1]}}
    claims = (
        Claim("share_of_bound", "at least", mark),
        # An op that sleeps for less than a thread's turn at the GIL may be overtaken by many others.
        Claim("overtaken_share_of_in_flight", "at most", mark and 1.0),
    )
    if mark is None:
        # These ops cost more CPU time than they sleep, and the bound ignores cores. So show what threads alone can do.
        works[BARE] = {"work": "sleeping.bare_threads", "seconds": seconds, "threads": threads, "items": items[0]}
    return Row(title, ITEMS, works, claims, f"{threads} threads that run all ops of an item")


def _sleeping_alike(length: str, seconds: float, threads: int, items: tuple[int, int], mark: float | None) -> Row:
    title = f"3 stages sleeping {length}, concurrency 4, {threads} threads"
    return _sleeping(title, items, [seconds] * 3, [4] * 3, threads, mark=mark)


def _training(title: str, threads: int, *, bare: int, wait: bool) -> Row:
    work = {"steps": 500, "wait": wait}
    piped = work | {"work": "training.pipeline", "threads": threads}
    return Row(
        title,
        (*SPREAD, "longest_microseconds"),
        {
            OURS: piped,
            REFERENCE: piped,
            BARE: work | {"work": "training.bare_threads", "threads": bare},
            "no loader": work | {"work": "training.no_loader"},
        },
        (
            Claim("p99_microseconds", "at most", 1.15, BARE),
            # A loader that is late disturbs the steps less.
            Claim("items_per_second", "at least", 396),
        ),
        f"{bare} thread{'s'[: bare - 1]}, `queue.Queue`",
        calibrated=True,
        times=3,
    )


def _wide(title: str, threads: list[int]) -> Row:
    work = {"work": "stream.pipeline", "stages": 3, "concurrency": 16, "items": 100_000}
    ours = {f"{OURS}, {count} threads": work | {"threads": count} for count in threads}
    works = {OURS: work | {"threads": 32}, REFERENCE: work | {"threads": 32, "items": 2_000}, **ours}
    claims = (
        Claim("items_per_second", "at least", 80_000),
        *(Claim("items_per_second", "at least", 0.95, name) for name in ours),
    )
    return Row(title, ITEMS, works, claims, cores=16)


def _unpacking(threads: int) -> Row:
    work = {"work": "unpacking.pipeline", "threads": threads}
    return Row(
        f"real work: 256 KiB unpacked by `zlib`, then hashed, on {threads} threads",
        ITEMS,
        {
            OURS: work | {"items": 1_500},
            REFERENCE: work | {"items": 1_500},
            BARE: {"work": "unpacking.bare_threads", "threads": threads, "items": 1_500},
        },
        (
            Claim("items_per_second", "at least", 2, REFERENCE),
            # The ops take a third of a millisecond, so the cost of passing items on is noticeable.
            Claim("items_per_second", "at least", 0.85, BARE),
        ),
        f"{threads} threads that do both to an item, `queue.Queue`",
        times=3,
    )


ON_EXECUTOR: Work = {"work": "stream.pipeline", "stages": 1, "concurrency": 4, "threads": 8, "pool": 4}
ROUND_TRIP: Work = {"work": "round_trip.pipeline", "stages": 3, "concurrency": 4, "threads": 8, "sink": 3}
STOPPING: Work = {"work": "stopping.pipeline", "graphs": 100, "seconds": 0.01, "seed": 1}

# Half a second of work per round. Sleeping graphs get enough to forget the start.
ROWS: dict[str, Row] = {
    "no-op": _streaming("3 no-op stages, concurrency 4, 8 threads", (150_000, 2_000), 100),
    "ordered": _streaming("the same in input order", (60_000, 2_000), 60, order="input"),
    "aggregate": _streaming("3 no-op stages, then `aggregate(32)`", (120_000, 2_000), 80, aggregate=32),
    "async": _streaming(
        "1 async stage, concurrency 64, `await asyncio.sleep(0)`",
        (40_000, 4_000),
        15,
        bare=(
            "64 coroutines that share an iterator",
            {"work": "coroutines.bare", "items": 100_000, "concurrency": 64},
        ),
        op="same_async",
        stages=1,
        concurrency=64,
    ),
    "executor": Row(
        "1 no-op stage on a user's `ThreadPoolExecutor`, concurrency 4",
        ITEMS,
        {
            OURS: ON_EXECUTOR | {"items": 50_000},
            REFERENCE: ON_EXECUTOR | {"items": 3_000},
            BARE: {"work": "stream.bare_executor", "items": 60_000, "concurrency": 4, "pool": 4},
        },
        (Claim("items_per_second", "at least", 0.5, BARE),),
        "`submit` and `add_done_callback`, 4 in flight",
    ),
    "round-trip": Row(
        "1 item at a time through 3 no-op stages, `add_sink(3)`",
        SPREAD,
        {
            OURS: ROUND_TRIP | {"items": 8_000},
            REFERENCE: ROUND_TRIP | {"items": 2_000},
            BARE: {"work": "round_trip.bare_thread", "items": 8_000},
        },
        (
            Claim("p50_microseconds", "at most", 1 / 7, REFERENCE),
            Claim("p99_microseconds", "at most", 1 / 3, REFERENCE),
        ),
        "1 thread, 2 `SimpleQueue`s",
    ),
    "sleep-1ms": _sleeping_alike("1 ms", 1e-3, 8, (4_000, 1_000), 0.95),
    "sleep-1ms-wide": _sleeping_alike("1 ms", 1e-3, 16, (6_000, 1_000), 0.95),
    "sleep-10ms": _sleeping_alike("10 ms", 10e-3, 8, (600, 300), 0.95),
    "sleep-10ms-wide": _sleeping_alike("10 ms", 10e-3, 16, (900, 400), 0.95),
    "sleep-10us": _sleeping_alike("10 microseconds", 10e-6, 8, (10_000, 1_000), None),
    "sleep-0": _sleeping_alike("0 microseconds", 0.0, 8, (10_000, 1_000), None),
    "sleep-mixed-8": _sleeping(
        "stages sleeping 1, 0.5, 4 ms, concurrency 8, 1, 8, 8 threads",
        (3_000, 800),
        [0.001, 0.0005, 0.004],
        [8, 1, 8],
        8,
    ),
    "sleep-mixed-6": _sleeping(
        "stages sleeping 1, 0.9, 4 ms, concurrency 8, 1, 8, 6 threads",
        (3_000, 800),
        [0.001, 0.0009, 0.004],
        [8, 1, 8],
        6,
    ),
    "sleep-mixed-16": _sleeping(
        "stages sleeping 2, 1, 4 ms, concurrency 4, 2, 8, 16 threads",
        (3_000, 800),
        [0.002, 0.001, 0.004],
        [4, 2, 8],
        16,
    ),
    "unpacking": _unpacking(2),
    "training": _training(
        "training loop: 1 ms steps, 400/s, each takes an item of 1 ms without the GIL; 4 threads", 4, bare=1, wait=True
    ),
    # Steps that never release the GIL leave several loading threads to run at once on the available cores when it is
    # their turn. With any loader, the steps are interrupted for as long as there are more threads than cores.
    "training-busy-1": _training("the same, steps without a wait between them, 1 thread", 1, bare=1, wait=False),
    "training-busy-4": _training("the same, steps without a wait between them, 4 threads", 4, bare=4, wait=False),
    "wide": _wide("3 no-op stages, concurrency 16, 32 threads", [4, 8, 16, 24, 48]),
}

# Measured by itself, since other work on the machine spoils it.
STOP_ROWS: dict[str, Row] = {
    "stop": Row(
        "from `break` to the end of `auto_stop`: 100 random graphs, ops of 10 ms",
        ("p50_microseconds", "p95_microseconds", "longest_microseconds"),
        {OURS: STOPPING, REFERENCE: STOPPING},
        # No op begins after the break, so the stop takes what is left of one op, and no more than 10 ms besides.
        (Claim("p95_microseconds", "at most", 20_000),),
    ),
}
