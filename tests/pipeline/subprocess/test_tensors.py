"""Test that tensors arrive as they were sent, and that PyTorch works in the worker."""

from __future__ import annotations

import pytest
from tests.pipeline.subprocess.work import Given

from spdl.pipeline import iterate_in_subprocess

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_tensors(method: str) -> None:
    block = torch.arange(2 * 3 * 20 * 30, dtype=torch.float32).reshape(2, 3, 20, 30)
    sent = [
        block,
        block.contiguous(memory_format=torch.channels_last),
        block.to(torch.bfloat16),
        block > 7,
        block.to(torch.complex64),
        torch.tensor(2.5),
        torch.arange(3),
    ]
    got = list(iterate_in_subprocess(Given(*sent), mp_context=method))
    for ours, theirs in zip(got, sent, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True, check_stride=True)
    got[0].mul_(2)
    assert torch.equal(got[0], 2 * block)


def test_tensors_of_other_kinds() -> None:
    block = torch.arange(20_000, dtype=torch.float32).reshape(100, 200)
    sent = [block[::2, ::3], block.t(), block.expand(3, 100, 200), torch.zeros(0, 4)]
    got = list(iterate_in_subprocess(Given(*sent), mp_context="fork"))
    for ours, theirs in zip(got, sent, strict=True):
        assert torch.equal(ours, theirs)
    (leaf,) = iterate_in_subprocess(Given(torch.ones(3000, requires_grad=True)), mp_context="fork")
    assert leaf.requires_grad
    (parameter,) = iterate_in_subprocess(Given(torch.nn.Parameter(torch.ones(3000))), mp_context="fork")
    assert isinstance(parameter, torch.nn.Parameter)


def test_torch_computes_in_a_forked_process() -> None:
    """PyTorch's thread pool runs here, since the check for leaks starts it, and a fork does not copy its threads."""

    def compute() -> list[float]:
        return [float(torch.ones(1 << 22).sum())]

    assert list(iterate_in_subprocess(compute, mp_context="fork", timeout=30)) == [float(1 << 22)]
