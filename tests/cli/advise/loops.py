"""Loops as they were measured: how long they waited and stepped, and what their batches took."""

from __future__ import annotations

from typing import Any

# 100 steps of 10 ms, each after a wait of 30 ms, in one iteration that begins at once. A batch takes a worker 160 ms,
# of which it decodes 120.
STARVED: dict[str, Any] = {
    "processes": 1,
    "made": 1,
    "epochs": 1,
    "start": 0.0,
    "waits": 100,
    "wait": 3.0,
    "steps": 100,
    "step": 1.0,
    "step_cpu": 1.0,
    "batches": 100,
    "fetch": 15.5,
    "fetch_cpu": 15.5,
    "collate": 0.5,
    "collate_cpu": 0.5,
    "observed": 10.0,
    "kinds": {"decoding": 8.0},
    "sent": 100,
    "send_cpu": 0.1,
}


def steps(count: int, mean: float, spread: float, name: str, names: str) -> dict[str, Any]:
    """Return the sums of steps of two lengths, which differ from their mean by the spread."""
    return {names: count, name: count * mean, f"{name}_squares": count * (mean**2 + spread**2)}


def turns(
    what: str, per_second: float | list[float], workers: int = 4, start: float = 0.1, **changes: Any
) -> dict[str, Any]:
    """Return a way to load that took four turns of half a second."""
    speeds = per_second if isinstance(per_second, list) else [per_second] * 4
    found = {
        "batches": [speed / 2 for speed in speeds],
        "seconds": [0.5] * 4,
        "starts": [start] * 4,
        "ends": [0.0] * 4,
        "error": "",
    }
    return {"what": what, "workers": workers, "reason": "", **found, **changes}


def trial(*ways: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a trial, in which the job's own way makes 25 steps a second."""
    return tried([turns("now", 25.0), *ways])


def tried(ways: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the record of a trial of several ways, with steps of 10 ms that were measured without the loader."""
    return {"seconds": 2.0, "step_seconds": 0.01, "step_cpu": 0.001, "step_alone": True, "ways": ways}


# Ten iterations of ten steps of 10 ms, which wait for 0.1 ms. Each iteration takes 0.4 s to begin and to end. A batch
# takes a worker 20 ms, of which it decodes 15.
SHORT: dict[str, Any] = {
    "epochs": 10,
    "start": 4.0,
    "wait": 0.01,
    "fetch": 1.9,
    "fetch_cpu": 1.9,
    "collate": 0.05,
    "collate_cpu": 0.05,
    "send_cpu": 0.05,
}
