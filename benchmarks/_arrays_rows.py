"""The rows of the benchmark of arrays and archives: work, contenders and claims."""

from __future__ import annotations

from _engine_rows import OURS, REFERENCE, Claim, Row, Work

# With one thread, other load on the machine costs time but no CPU time.
ALONE, TOGETHER = "calls_per_cpu_second", "calls_per_second"
CALLS = (TOGETHER, ALONE)

BARE, BARE_CHECKED = "libdeflate, no checksum", "libdeflate and checksum"


def _row(title: str, works: dict[str, Work], *claims: tuple[str, float], figure: str = ALONE) -> Row:
    return Row(title, CALLS, works, tuple(Claim(figure, "at least", mark, beside) for beside, mark in claims))


def _npy(threads: int, title: str, mark: float) -> Row:
    work: Work = {"work": "loads.npy", "by": "spdl", "threads": threads}
    works = {
        OURS: work | {"calls": 300_000 // threads},
        REFERENCE: work | {"calls": 40_000 // threads},
        "numpy": work | {"by": "numpy", "calls": 2_000 // threads},
        "torch.load": {"work": "loads.torch_load", "threads": threads, "calls": 800 // threads},
    }
    return _row(title, works, (REFERENCE, mark), figure=ALONE if threads == 1 else TOGETHER)


def _npz(title: str, kind: str, compression: str, threads: int, calls: tuple[int, int, int], *, mark: float) -> Row:
    work: Work = {"work": "loads.npz", "by": "spdl", "kind": kind, "compression": compression, "threads": threads}
    works = {
        OURS: work | {"calls": calls[0] // threads},
        REFERENCE: work | {"calls": calls[1] // threads},
        "numpy": work | {"by": "numpy", "calls": calls[2] // threads},
    }
    claims = [(REFERENCE, mark)]
    if compression == "deflated" and threads == 1:
        bare: Work = {"work": "bare.inflate", "kind": kind, "threads": 1, "calls": calls[0]}
        works |= {BARE: bare | {"checksum": False}, BARE_CHECKED: bare | {"checksum": True}}
        claims.append((BARE_CHECKED, 0.95))
    return _row(title, works, *claims, figure=ALONE if threads == 1 else TOGETHER)


def _batch(kind: str, calls: int) -> Row:
    work: Work = {"work": "loads.npz_batch", "kind": kind, "size": 32, "calls": calls}
    alone = "spdl-turbo, 1 thread"
    works = {OURS: work | {"num_threads": 2}, alone: work | {"num_threads": 1}}
    return _row(f"npz deflated, {kind} data, batch of 32 in one call, 2 threads", works, (alone, 1.8), figure=TOGETHER)


# Half a second of work per round, or less.
ROWS: dict[str, Row] = {
    "npy": _npy(1, "npy, two arrays, one thread", 3),
    "npy-2": _npy(2, "the same, two threads in a loop", 3),
    "stored": _npz("npz stored, two arrays, one thread", "noise", "stored", 1, (200_000, 4_000, 800), mark=15),
    "stored-2": _npz("the same, two threads in a loop", "noise", "stored", 2, (200_000, 6_000, 800), mark=8),
    "smooth": _npz(
        "npz deflated, smooth data, one thread", "smooth", "deflated", 1, (4_000, 1_500, 300),
        mark=1.1,
    ),
    "smooth-2": _npz("the same, two threads in a loop", "smooth", "deflated", 2, (6_000, 3_000, 300), mark=1.1),
    "photo": _npz(
        "npz deflated, a photo's noise, one thread", "photo", "deflated", 1, (300, 250, 80), mark=1.1
    ),
    "photo-2": _npz("the same, two threads in a loop", "photo", "deflated", 2, (500, 400, 80), mark=1.1),
    "batch": _batch("photo", 320),
    "tar": _row(
        "tar of 50 small members, views",
        {
            OURS: {"work": "loads.tar", "by": "spdl", "calls": 50_000},
            REFERENCE: {"work": "loads.tar", "by": "spdl", "calls": 15_000},
            "tarfile": {"work": "loads.tar", "by": "tarfile", "calls": 300},
        },
        (REFERENCE, 3),
    ),
    "wav": _row(
        "wav, 10 s, 44.1 kHz stereo",
        {
            OURS: {"work": "loads.wav", "by": "spdl", "calls": 1_000_000},
            REFERENCE: {"work": "loads.wav", "by": "spdl", "calls": 100_000},
            "soundfile": {"work": "loads.wav", "by": "soundfile", "calls": 500},
        },
        (REFERENCE, 2),
    ),
}  # fmt: skip
