"""Subclasses that override what torch's class lets them override."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest
from tests.dataloader.pytorch.datasets import Squares, plain

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader  # noqa: E402

from spdl.dataloader import PyTorchDataLoader  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded")


class _Chosen:
    @property
    def _index_sampler(self) -> Any:
        return [[4, 3], [0], [7, 7, 2], [1]]


class _Backwards:
    @property
    def _index_sampler(self) -> Any:
        inner: Any = super()
        return list(reversed(list(inner._index_sampler)))


class TorchsChosen(_Chosen, DataLoader):  # type: ignore[misc] # mypy sees no types of torch's.
    """Chooses the batches."""


class OurChosen(_Chosen, PyTorchDataLoader):
    """Chooses the batches."""


class TorchsBackwards(_Backwards, DataLoader):  # type: ignore[misc] # mypy sees no types of torch's.
    """Turns the order of the batches around."""


class OurBackwards(_Backwards, PyTorchDataLoader):
    """Turns the order of the batches around."""


ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"num_workers": 2, "workers": "thread"},
    {"num_workers": 1, "persistent_workers": True, "workers": "thread"},
    {"num_workers": 2, "workers": "process"},
]
CLASSES = [(TorchsChosen, OurChosen), (TorchsBackwards, OurBackwards)]


def _read(loader: Any) -> list[Any]:
    torch.manual_seed(3)
    return [[plain(batch) for batch in loader] for _ in range(2)]


@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize(("theirs", "ours"), CLASSES)
def test_a_subclass_may_choose_the_batches(theirs: Any, ours: Any, arguments: dict[str, Any]) -> None:
    expected = theirs(Squares(), 5, shuffle=True)
    loader = ours(Squares(), 5, shuffle=True, **arguments)
    if "num_workers" in arguments:
        # torch draws otherwise with workers.
        expected = theirs(Squares(), 5, shuffle=True, num_workers=1)
    assert len(loader) == len(expected)
    assert _read(loader)[0] == _read(expected)[0]


@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("ours", [OurChosen, OurBackwards])
def test_its_batches_go_on(ours: Any, arguments: dict[str, Any]) -> None:
    whole = [plain(batch) for batch in ours(Squares(), 6, **arguments)]
    # Processes take long to start.
    for cut in (1, 3) if arguments.get("workers") == "process" else range(len(whole) + 1):
        loader = ours(Squares(), 6, **arguments)
        begun = [plain(batch) for batch in islice(iter(loader), cut)]
        state = json.loads(json.dumps(loader.state_dict()))
        other = ours(Squares(), 6, **arguments)
        other.load_state_dict(state)
        assert begun + [plain(batch) for batch in other] == whole
