"""The rows of `out_of_process.py`: work, contenders and claims."""

from __future__ import annotations

from _engine_rows import BARE, OURS, REFERENCE, Claim, Row

_MB = 1 << 20
_RATE = ("gigabytes_per_second",)
_ITEMS = ("items_per_second",)
_SPREAD = ("p50_microseconds", "p99_microseconds")


def _arrays(arena: str, title: str) -> Row:
    work = {"work": "arrays.cross", "count": 60, "size": 32 * _MB, "arena": arena}
    bare = {"work": "arrays.memcpy", "count": 60, "size": 32 * _MB}
    mark = None if arena == "ring" else 0.9
    return Row(
        title,
        _RATE,
        {OURS: work, REFERENCE: work, BARE: bare},
        (
            Claim("gigabytes_per_second", "at least", mark, BARE),
            Claim("gigabytes_per_second", "at least", 1.0, REFERENCE),
        ),
        "one core's memcpy",
    )


_DECODING = {"work": "decoding.batches", "count": 60, "size": 32, "threads": 2}
HERE, COPIED = "in threads of this process", "copied into shared memory"

_SMALL = {"work": "small.iterable", "count": 100_000, "buffer_size": 1000}


def _region(title: str, op: str, count: int, mark: float) -> Row:
    work = {"work": "regions.chain", "op": op, "count": count}
    region = work | {"where": "region"}
    return Row(
        title,
        _ITEMS,
        {OURS: region, REFERENCE: region, HERE: work | {"where": "threads"}},
        (Claim("items_per_second", "at least", mark, HERE),),
        "the same on 2 threads",
        cores=2,
    )


OUT_OF_PROCESS_ROWS: dict[str, Row] = {
    "arrays": _arrays("none", "32 MiB arrays out of one process, no arena"),
    "pool": _arrays("pool", "The same through a `SharedMemorySegmentPool`"),
    "ring": _arrays("ring", "The same through a `SharedMemoryRingBuffer`, whose items are copies"),
    "decoding": Row(
        "640x480 JPEG to batches of 32 at 224x224, decoded into shared memory by 2 threads of another process",
        ("photos_per_second",),
        {
            OURS: _DECODING | {"where": "shared"},
            COPIED: _DECODING | {"where": "copied"},
            HERE: _DECODING | {"where": "here"},
        },
        (Claim("photos_per_second", "at least", 0.97, HERE),),
        "the same in threads of this process",
        cores=2,
    ),
    "region": _region("Pure Python of 1 ms on 2 processes of a region", "spin", 2000, 1.8),
    "region_small": _region("Numbers through a stage in 2 processes of a region, 64 at once", "same", 50_000, 0.5),
    "region_flat": Row(
        "A million numbers through a stage in 2 processes of a region: the memory of all processes",
        (*_ITEMS, "grown_mb"),
        {OURS: {"work": "regions.flat", "count": 1_000_000}},
        (Claim("grown_mb", "at most", 8.0),),
        cores=2,
    ),
    "small": Row(
        "Numbers out of one process, one by one, `buffer_size=1000`",
        _ITEMS,
        {OURS: _SMALL, REFERENCE: _SMALL},
        (Claim("items_per_second", "at least", 1.0, REFERENCE),),
    ),
    "batched": Row(
        "A million numbers through a channel, 64 per message",
        (*_ITEMS, "grown_mb"),
        {OURS: {"work": "small.ring", "count": 1_000_000, "batch": 64}},
        (Claim("items_per_second", "at least", 200_000), Claim("grown_mb", "at most", 4.0)),
    ),
    "hand_over": Row(
        "Handing a number over, processes on a core each, one way",
        _SPREAD,
        {OURS: {"work": "ping_pong.channel", "count": 20_000}, BARE: {"work": "ping_pong.eventfd", "count": 20_000}},
        (
            Claim("p50_microseconds", "at most", 1.5, BARE),
            Claim("p99_microseconds", "at most", 2.0, BARE),
        ),
        "a bare eventfd",
        cores=2,
    ),
}
