"""Test the public check of resuming: it must find what is lost, repeated or moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spdl.testing import assert_resumes_exactly

if TYPE_CHECKING:
    from collections.abc import Iterator


class Loader:
    """A loader of numbers whose resume has a fault."""

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.at = 0

    def __iter__(self) -> Iterator[int]:
        numbers = list(range(6))
        while self.at < len(numbers):
            self.at += 1
            yield numbers[self.at - 1]
        self.at = 0

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        at = state["at"]
        if self.fault == "loses" and at == 3:
            at += 1
        if self.fault == "repeats" and at == 4:
            at -= 1
        self.at = at


def test_a_right_one_passes() -> None:
    assert_resumes_exactly(Loader)


@pytest.mark.parametrize(
    ("fault", "message"),
    [("loses", r"after step 3 .*Lost: 3\."), ("repeats", r"after step 4 .*Repeated: 3")],
)
def test_a_wrong_one_is_found(fault: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_resumes_exactly(lambda: Loader(fault))
