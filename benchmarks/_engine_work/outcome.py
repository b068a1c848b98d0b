"""Check the items that came out of a run, and compute its figures."""

from __future__ import annotations

from usage import peak_memory_mb


def figures(got: list[int], items: int, seconds: float, cpu: float) -> dict[str, float]:
    """Check that all items came out, and return how fast they did."""
    if sorted(got) != list(range(items)):
        raise SystemExit(f"{len(got)} items came out of {items}, or different ones")
    return {
        "items_per_second": items / seconds,
        "cpu_seconds": cpu,
        "cpu_seconds_per_million": cpu / items * 1e6,
        "peak_memory_mb": peak_memory_mb(),
        "overtaken_by_at_most": max(place - item for place, item in enumerate(got)),
    }
