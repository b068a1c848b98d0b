"""Eight threads on one sampler at once. Meant for builds without the GIL."""

from tests.hammer import THREADS, assert_agree, hammer

from spdl.source import DistributedDeterministicSampler, DistributedRandomSampler
from spdl.source.utils import embed_shuffle


def test_samplers() -> None:
    weights = [1.0, 2.0, 3.0] * 20
    random = DistributedRandomSampler(60, rank=1, world_size=2, seed=3)
    weighted = DistributedRandomSampler(60, rank=0, world_size=2, weights=weights, num_draws=500)
    ordered = DistributedDeterministicSampler(60, rank=1, world_size=2)
    alone = [list(sampler) for sampler in (random, weighted, ordered)]
    returned = hammer(
        lambda: list(random), lambda: list(weighted), lambda: list(ordered), lambda: (len(random), len(weighted))
    )
    assert_agree(returned)
    assert [values[0] for values in returned] == [*alone, (30, 250)]


def test_a_sampler_that_is_shuffled_while_others_read() -> None:
    sampler = DistributedRandomSampler(60, rank=0, world_size=1)
    orders = []
    for seed in range(3):
        sampler.shuffle(seed)
        orders.append(list(sampler))
    returned = hammer(lambda: list(sampler), *(lambda seed=seed: sampler.shuffle(seed) for seed in range(3)))
    assert all(order in orders for order in returned[0])


def test_passes_that_threads_begin_at_once() -> None:
    source = embed_shuffle(DistributedRandomSampler(60, rank=0, world_size=1))
    (passes,) = hammer(lambda: sorted(source))
    assert passes == [list(range(60))] * len(passes)
    assert len(passes) % THREADS == 0
