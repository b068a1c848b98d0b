"""Test that an aggregator may keep tensors where its pipeline is cut."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tests.pipeline.support import source, through_json
from tests.pipeline.test_resume_leftovers import Left, check_leftovers

torch = pytest.importorskip("torch", reason="needs torch")


@pytest.mark.parametrize("dtype", [torch.int32, torch.bfloat16, torch.float64])
def test_what_is_left_over_may_have_tensors(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # The other tests do without it.
    monkeypatch.setitem(sys.modules, "torch", torch)
    check_leftovers(lambda values: torch.tensor(values, dtype=dtype))


def pack(value: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what comes back of something that is left over."""
    monkeypatch.setitem(sys.modules, "torch", torch)
    got: list[Any] = []

    class Takes(Left):
        def load_state_dict(self, state: dict[str, Any]) -> None:
            got.append(state["left"][0])

    def build() -> Any:
        return source([(1, 2)]).aggregate(Takes(value)).add_sink(1).build(num_threads=1)

    resumed = build()
    resumed.load_state_dict(through_json(build()))
    with resumed.auto_stop():
        list(resumed.get_iterator(timeout=60))
    return got[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.tensor([True, False]),
        lambda: torch.tensor(3),
        lambda: torch.empty(0, 3),
        lambda: torch.ones(1).expand(3),
        lambda: torch.arange(6).reshape(2, 3).t(),
        lambda: torch.tensor([1 + 2j]).conj(),
        lambda: torch.tensor([1 + 2j]).conj().imag,
        lambda: torch.ones(2, requires_grad=True).detach() * 2,
    ],
)
def test_dense_tensors_come_back_as_they_are(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    back = pack(make(), monkeypatch)
    assert back.dtype == make().dtype
    assert torch.equal(back, make())


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(2).to_sparse(),
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.5, 1, torch.quint8),
        lambda: torch.ones(2, device="meta"),
        lambda: torch.ones(2, requires_grad=True),
        lambda: torch.ones(2, requires_grad=True) * 2,
        lambda: torch.nn.Parameter(torch.ones(2), requires_grad=False),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_other_tensors_are_refused_by_name(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        TypeError,
        match=r"Stage .*Takes.* of type \w+ at `state_dict\(\)\['left'\]\[0\]`\. Only plain tensors come back",
    ):
        pack(make(), monkeypatch)
