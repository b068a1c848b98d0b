"""Makes batches under a budget of tokens, or mixes corpora. Prints how little is padding, or how exact shares are."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from spdl.source import BucketedOrder, EpochSampler, MixedOrder

BUDGET, RANKS, BATCH = 32_768, 8, 16
TOKENS = 10**6


def draw(median: float, documents: int, seed: int) -> np.ndarray:
    """Return lognormal lengths, none longer than a batch."""
    drawn = np.random.default_rng(seed).lognormal(np.log(median), 1, documents)
    return np.clip(drawn, 1, BUDGET).astype(np.int64)


def bucketing(documents: int, *, budget: bool) -> dict[str, float]:
    """Make the batches of an epoch on all ranks, under a budget or of a fixed number of documents."""
    lengths = draw(400, documents, 0)
    start = time.perf_counter()
    if budget:
        order = BucketedOrder(lengths, tokens_per_batch=BUDGET, group=RANKS, cost="quadratic", seed=1)
    else:
        order = BucketedOrder(lengths, group=BATCH * RANKS, seed=1)
    made = time.perf_counter() - start
    size = 1 if budget else BATCH
    samplers = [
        EpochSampler(order, batch_size=size, rank=rank, world_size=RANKS).batch_sampler for rank in range(RANKS)
    ]
    start = time.perf_counter()
    ranks = [list(sampler) for sampler in samplers]
    taken = time.perf_counter() - start
    longest = np.array([[lengths[batch].max() for batch in rank] for rank in ranks])
    padded = longest * np.array([[len(batch) for batch in rank] for rank in ranks])
    cost = padded * longest.astype(np.float64)
    tokens = sum(int(lengths[batch].sum()) for rank in ranks for batch in rank)
    return {
        "% no padding": 100 * tokens / float(padded.sum()),
        "largest batch": float(padded.max()),
        "% of step not waited": 100 * float(cost.mean(axis=0).sum() / cost.max(axis=0).sum()),
        "documents per second": RANKS * documents / taken,
        "seconds to make": made,
    }


def mixing(documents: int, unit: str) -> dict[str, float]:
    """Mix three corpora, one of documents a quarter as long, and see the shares after a million tokens."""
    lengths = [draw(400, documents, 1), draw(100, documents, 2), draw(1600, documents // 10, 3)]
    weights = np.array([0.5, 0.4, 0.1])
    worst = 0.0
    for seed in range(20):
        order = MixedOrder([each.size for each in lengths], weights=weights, unit=unit, lengths=lengths, seed=seed)
        indices = order.take(0, np.arange(20_000))
        end = int(np.searchsorted(np.cumsum(np.concatenate(lengths)[indices]), TOKENS)) + 1
        tokens = np.array(order.drawn(0, end)[1])
        worst = max(worst, float(np.abs(tokens / tokens.sum() - weights).max()))
    count = min(len(order), 10**6)
    start = time.perf_counter()
    for first in range(0, count, 8192):
        order.take(0, np.arange(first, min(first + 8192, count)))
    return {"% of shares": 100 * (1 - worst), "documents per second": count / (time.perf_counter() - start)}


def main(work: str, documents: int, contender: str) -> dict[str, float]:
    """Do one of the works."""
    if work == "bucketing":
        return bucketing(documents, budget=contender == "budget")
    return mixing(documents, contender)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps(main(given["work"], given["documents"], given["contender"])))
