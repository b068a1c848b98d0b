"""Results of items that are not delivered as a whole."""

from __future__ import annotations

import json

import pytest

from spdl.ray._leases.parts import Parts


def test_what_is_received_is_not_made_again_and_what_is_delivered_is_saved() -> None:
    parts = Parts()
    parts.receive([(5, 0), (5, 1), (5, 3), (7, 2, 4), (7, 2, 5)])
    parts.deliver([(5, 0), (7, 2, 4)])
    assert sorted(parts.received_of(0, 6)) == [(5, 0), (5, 1), (5, 3)]
    assert parts.received_of(6, 8) == [(7, 2, 4), (7, 2, 5)]
    again = Parts(json.loads(json.dumps(parts.to_state())))
    assert sorted(again.received_of(0, 10)) == [(5, 0), (7, 2, 4)]
    parts.forget([(4, 6)])
    assert parts.received_of(0, 6) == []
    assert parts.to_state() == [[[7, 2], [[4, 5]]]]


@pytest.mark.parametrize(
    "state", [None, [1], [[[], [[0, 1]]]], [[[1, -1], [[0, 1]]]], [[[1], []]], [[["a"], [[0, 1]]]]]
)
def test_what_names_no_results_is_refused(state: object) -> None:
    with pytest.raises(ValueError, match=r"result|ranges"):
        Parts(state)
