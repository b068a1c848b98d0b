"""A state that a signal handler takes at any line of ours or of PyTorch's loader is that of what the loop has got."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

import torch.utils.data.dataloader as torchs  # noqa: E402

import spdl.dataloader  # noqa: E402
from spdl.dataloader import PyTorchDataLoader  # noqa: E402

if TYPE_CHECKING:
    from types import FrameType

BATCHES, EPOCHS = 2, 2
FILES = (__file__, torchs.__file__, str(Path(spdl.dataloader.__file__).parent / "_pytorch"))


def make(options: dict[str, Any]) -> PyTorchDataLoader:
    generator = torch.Generator().manual_seed(5)
    return PyTorchDataLoader(range(2 * BATCHES), 2, shuffle=True, generator=generator, **options)


def read(loader: PyTorchDataLoader, epochs: int) -> list[list[list[int]]]:
    return [[batch.tolist() for batch in loader] for _ in range(epochs)]


def states_of_all_lines(loader: PyTorchDataLoader) -> list[tuple[int, str]]:
    """Read some epochs, and return the state at each line, with how many batches the loop had got by then."""
    states: set[tuple[int, str]] = set()
    got: list[Any] = []

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(FILES):
            return None
        if event == "line":
            sys.settrace(None)
            states.add((len(got), json.dumps(loader.state_dict())))
            sys.settrace(trace)
        return trace

    def loop() -> None:
        for _ in range(EPOCHS):
            for batch in loader:
                got.append(batch)  # noqa: PERF402 - one at a time, as training does.

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        loop()
    finally:
        sys.settrace(before)
    return sorted(states)


STAYING = {"num_workers": 1, "persistent_workers": True}


@pytest.mark.parametrize(("options", "ended"), [({}, 0), ({"num_workers": 1}, 0), (STAYING, 0), (STAYING, 1)])
def test_a_state_of_any_line_resumes_exactly(options: dict[str, Any], ended: int) -> None:
    whole = read(make(options), EPOCHS + 3)[ended:]
    loader = make(options)
    if ended:
        other = make(options)
        read(other, ended)
        loader.load_state_dict(other.state_dict())
    states = states_of_all_lines(loader)
    assert {count for count, _ in states} == set(range(EPOCHS * BATCHES + 1))
    for count, state in states:
        resumed = make(options)
        resumed.load_state_dict(json.loads(state))
        found = read(resumed, 2)
        # The batch that `append` was not called with yet was received nevertheless.
        places = [divmod(received, BATCHES) for received in (count, count + 1)]
        rests = [[whole[epoch][batches:], whole[epoch + 1]] for epoch, batches in places]
        rests += [[[], whole[epoch]] for epoch, batches in places if not batches]
        assert found in rests
