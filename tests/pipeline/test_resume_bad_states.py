"""Test that states which are damaged, of others or of other releases are refused, or read as they were meant."""

from __future__ import annotations

import json
import pickle
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.damaged_states import not_refused
from tests.pipeline.kinds import text_log
from tests.pipeline.support import build, rest, source, through_json, wait_until, written_by_hand

from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.source import EpochSampler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _partial_pipeline() -> Pipeline[Any]:
    def twice(x: int) -> Iterator[int]:
        yield x
        yield x + 100

    return source(range(12), continuous=True).pipe(twice).aggregate(3).disaggregate().add_sink(2).build(num_threads=1)


REAL: dict[str, Callable[[], Pipeline[Any]]] = {
    "partly received": _partial_pipeline,
    "a sampler": lambda: build(EpochSampler(30, rank=0, world_size=2, batch_size=3), str, concurrency=3),
    "iterated from the beginning": lambda: build(Iterated(30), str),
    "merged": lambda: (
        PipelineBuilder().merge([source(range(9)), source(Iterated(10)).pipe(str)]).add_sink(3).build(num_threads=2)
    ),
}


class Iterated:
    """A source that cannot begin anywhere else than at its beginning."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Iterator[int]:
        yield from range(self.size)


class TestBadStates:
    def state(self) -> Any:
        pipeline = build(range(10), str)
        with pipeline.auto_stop():
            pipeline.get_item()
            # Others are on their way.
            assert wait_until(lambda: pipeline.state_dict()["sources"][0].get("out"))
            return through_json(pipeline)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda state: state.pop("spdl"), "is not a state that `state_dict\\(\\)` returned"),
            (lambda state: state.update(spdl="dataloader"), "is of a dataloader, and this is a pipeline"),
            (lambda state: state.pop("version"), "has no version"),
            (lambda state: state.update(version=2), "has version 2, and this release of spdl reads versions up to 1"),
            (lambda state: state.pop("fingerprint"), "has no fingerprint"),
        ],
    )
    def test_a_damaged_one(self, change: Callable[[Any], object], message: str) -> None:
        state = self.state()
        change(state)
        pipeline = build(range(10), str)
        with pytest.raises(ValueError, match=message):
            pipeline.load_state_dict(written_by_hand(state))
        # It is as it was.
        with pipeline.auto_stop():
            assert len(list(pipeline)) == 10

    def test_none_at_all(self) -> None:
        state: Any
        for state in (None, [], "state"):
            with pytest.raises(TypeError, match="`state` must be a dict"):
                build().load_state_dict(state)

    def test_of_another_pipeline(self) -> None:
        with pytest.raises(ValueError, match="other stages: pipe str; this pipeline has pipe repr"):
            build(range(10), repr).load_state_dict(self.state())
        message = r"range of length 10 with fingerprint .*; this pipeline has range of length 11"
        with pytest.raises(ValueError, match=message):
            build(range(11), str).load_state_dict(self.state())
        with pytest.raises(ValueError, match=r"range of length 10 .*; this pipeline has list of length 10"):
            build(list(range(10)), str).load_state_dict(self.state())
        with pytest.raises(ValueError, match=r"range of length 10 .*; this pipeline has range of length 10"):
            build(range(1, 11), str).load_state_dict(self.state())

    def test_too_late(self) -> None:
        pipeline = build(range(10), str)
        with pipeline.auto_stop():
            with pytest.raises(RuntimeError, match="was started already: load the state before the first read"):
                pipeline.load_state_dict(self.state())
            assert len(list(pipeline)) == 10

    def test_an_old_one_is_read(self) -> None:
        """This is version 1, and must be readable for ever."""
        state = {
            "spdl": "pipeline",
            "version": 1,
            "fingerprint": {"stages": ["pipe twice", "aggregate"], "sources": [{"type": "range", "length": 9}]},
            "epoch": 0,
            "in_order": True,
            "sources": [
                {
                    "position": 7,
                    "out": [2, 1, 1, 2],
                    "passes": [{"epoch": 0, "begin": 0, "first": "0"}],
                    "following": 1,
                }
            ],
            "partial": {"items": [{"item": 2, "done": [0, 1]}]},
            "checksum": 652249887,
        }

        def twice(x: int) -> Iterator[int]:
            yield x
            yield 10 * x

        pipeline = source(range(9)).pipe(twice).aggregate(2).add_sink(1).build(num_threads=1)
        assert rest(pipeline, state) == [[20, 4], [40, 5], [50, 7], [70, 8], [80]]

    @pytest.mark.filterwarnings("ignore:The source 'Iterated' cannot begin at a position")
    @pytest.mark.parametrize("name", list(REAL))
    @pytest.mark.parametrize("received", [0, 1, 5, 14])
    def test_one_in_which_anything_is_removed_or_replaced(self, name: str, received: int) -> None:
        pipeline = REAL[name]()
        with pipeline.auto_stop():
            for _ in range(received):
                pipeline.get_item()
            state = through_json(pipeline)
        target = REAL[name]()
        before = through_json(target)
        assert not_refused(target, state) == []
        assert through_json(target) == before
        target.load_state_dict(state)

    def test_the_message_says_what_was_found(self) -> None:
        state = self.state()
        with pytest.raises(ValueError, match=r"`state` is damaged: it has no 'checksum', so a part of it was cut off"):
            build(range(10), str).load_state_dict({name: state[name] for name in state if name != "checksum"})
        message = (
            rf"its 'checksum' is {state['checksum']}, but its content's checksum is \d+, so something in it was remov"
        )
        with pytest.raises(ValueError, match=message):
            build(range(10), str).load_state_dict({**state, "epoch": 1})

    def test_it_may_be_kept_in_any_way_that_keeps_it(self) -> None:
        state = self.state()
        kept = [
            dict(reversed(state.items())),
            json.loads(json.dumps(state, sort_keys=True, indent=1)),
            pickle.loads(pickle.dumps(state)),  # noqa: S301 - its own.
        ]
        for each in kept:
            assert rest(build(range(10), str), each) == rest(build(range(10), str), state)

    @pytest.mark.filterwarnings("ignore:The source 'Stateful' cannot begin at a position")
    @pytest.mark.parametrize(
        "own",
        [
            dict[Any, Any].fromkeys([*range(12), "name"], (1, 2)),
            dict[Any, Any].fromkeys([10, 9, 1.5, True, -3], float("inf")),
            {"none": {None: 1}, "digits": {"10": 1, "9": "5"}},
            {"bytes": b"x", "object": threading.Lock(), (1, 2): "a tuple"},
        ],
    )
    def test_what_a_source_says_of_itself_may_be_anything(self, own: Any) -> None:
        class Stateful(Iterated):
            def state_dict(self) -> Any:
                return own

            def load_state_dict(self, state: Any) -> None:
                assert len(state) == len(own)

        with build(Stateful(5), str).auto_stop() as pipeline:
            pipeline.get_item()
            state = pipeline.state_dict()
        states = [state]
        if "bytes" not in own:
            states += [
                json.loads(json.dumps(state)),
                json.loads(json.dumps(json.loads(json.dumps(state)), sort_keys=True)),
            ]
        for each in states:
            with text_log():
                assert rest(build(Stateful(5), str), each) == ["1", "2", "3", "4"]

    def test_one_that_is_nested_without_end(self) -> None:
        state = self.state()
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        endless: list[Any] = []
        endless.append(endless)
        for damage in (deep, endless, 10**5_000):
            with pytest.raises(
                ValueError, match=r"is damaged: its 'checksum' is .*, but its content's checksum is none"
            ):
                build(range(10), str).load_state_dict({**state, "epoch": damage})
