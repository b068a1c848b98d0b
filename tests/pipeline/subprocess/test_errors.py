"""Test how errors in a worker arrive here: with their type, their traceback, and the worker's activity."""

from __future__ import annotations

import pickle
import traceback
from typing import Any, NoReturn

import pytest
from tests.pipeline.subprocess.work import (
    METHODS,
    Given,
    Raising,
    Sealed,
    Silent,
    Trap,
    TwoPartError,
    exit_at_once,
    run_out_of_memory,
    sleep_long,
)

from spdl.pipeline import PipelineFailure, iterate_in_subprocess

pytestmark = pytest.mark.timeout(120)

DOING = {
    "initializer": "Initializer failed",
    "fn": "Failed to create the iterable",
    "iter": "Failed to create the iterator",
    "next": "Failed to fetch the next item",
}
DEAD = r"The worker process is shutdown\. Cannot iterate again"


def run(raising: Raising, method: str = "fork") -> tuple[list[int], Any]:
    got: list[Any] = []
    items = iterate_in_subprocess(raising, initializer=raising.initialize, mp_context=method)
    begun = iter(items)
    try:
        got.extend(begun)
    except Exception:
        # The iterable cannot be used again, and says why.
        with pytest.raises(RuntimeError, match=DEAD):
            iter(items)
        with pytest.raises(RuntimeError, match=DEAD):
            next(begun)
        raise
    return got, items


@pytest.mark.parametrize("moment", DOING)
class TestTypeAndTraceback:
    @pytest.mark.parametrize(
        "error", [KeyError("k"), OSError(28, "No space left on device", "f"), MemoryError(), Warning("w")]
    )
    def test_of_what_can_be_pickled(self, moment: str, error: Exception) -> None:
        with pytest.raises(type(error)) as caught:
            run(Raising(moment, error))
        assert type(caught.value) is type(error)
        assert str(caught.value) == str(error)
        assert caught.value.args == error.args
        assert caught.value.__notes__ == [f"The worker subprocess quit. {DOING[moment]}."]
        shown = "".join(traceback.format_exception(caught.value))
        assert "in a worker process" in shown
        assert "work.py" in shown
        assert "raise self.error" in shown

    def test_of_what_cannot(self, moment: str) -> None:
        with pytest.raises(RuntimeError, match="TwoPartError: code 3 at /data") as caught:
            run(Raising(moment, TwoPartError(3, "/data")))
        assert "raise self.error" in "".join(traceback.format_exception(caught.value))

    @pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration(5), StopAsyncIteration()])
    def test_of_what_would_end_more_than_a_loop(self, moment: str, error: BaseException) -> None:
        with pytest.raises(RuntimeError) as caught:
            run(Raising(moment, error))
        message = str(caught.value)
        assert message.startswith(f"The worker subprocess quit. {DOING[moment]}: ") or "generator raised" in message


@pytest.mark.parametrize("method", METHODS)
def test_items_before_the_error_arrive(method: str) -> None:
    items = iterate_in_subprocess(Raising("next", ValueError("no more"), after=50), mp_context=method)
    got: list[Any] = []
    with pytest.raises(ValueError, match="no more"):
        got.extend(items)
    got.clear()
    begun = iter(iterate_in_subprocess(Raising("next", ValueError("no more"), after=50), mp_context=method))
    got.extend(next(begun) for _ in range(50))
    with pytest.raises(ValueError, match="no more"):
        next(begun)
    assert got == list(range(50))


def test_out_of_memory() -> None:
    begun = iter(iterate_in_subprocess(run_out_of_memory))
    assert next(begun) == 1
    with pytest.raises(MemoryError):
        next(begun)


def test_a_long_traceback() -> None:
    """The traceback is longer than a pipe passes on in one piece."""
    message = "long " * 50_000
    with pytest.raises(ValueError, match="long long") as caught:
        run(Raising("next", ValueError(message)))
    assert str(caught.value) == message


class TestUnpicklable:
    def test_item(self) -> None:
        items = iterate_in_subprocess(Given(1, 2, Sealed(), 3), mp_context="fork")
        begun = iter(items)
        assert [next(begun), next(begun)] == [1, 2]
        with pytest.raises(TypeError, match="sealed") as caught:
            next(begun)
        (note,) = caught.value.__notes__
        assert note.startswith("The worker subprocess quit. Failed to send item 2 of the pass, of type 'Sealed': items")
        with pytest.raises(RuntimeError, match=DEAD):
            iter(items)

    @pytest.mark.parametrize("item", [lambda: 0, iter(lambda: 0, 1), [1, {"deep": lambda: 0}]])
    def test_common_ones(self, item: Any) -> None:
        with pytest.raises((TypeError, AttributeError, pickle.PicklingError), match="pickle"):
            list(iterate_in_subprocess(Given(item), mp_context="fork"))

    def test_item_that_cannot_be_made_again_here(self) -> None:
        items = iterate_in_subprocess(Given(1, Trap(), 3), mp_context="fork")
        begun = iter(items)
        assert next(begun) == 1
        with pytest.raises(ValueError, match="snap from") as caught:
            next(begun)
        assert caught.value.__notes__ == [
            "The worker subprocess was ended. Failed to unpickle an item that it had sent."
        ]
        with pytest.raises(RuntimeError, match="Cannot iterate again: an item could not be unpickled: snap"):
            next(begun)

    @pytest.mark.parametrize("method", ["spawn", "forkserver"])
    def test_fn(self, method: str) -> None:
        with pytest.raises((TypeError, AttributeError, pickle.PicklingError), match="pickle") as caught:
            iterate_in_subprocess(lambda: [1], mp_context=method)
        assert "functions that are defined at the top level of a module" in caught.value.__notes__[-1]

    @pytest.mark.parametrize("method", ["spawn", "forkserver"])
    def test_fn_that_cannot_be_made_again_there(self, method: str) -> None:
        with pytest.raises(ValueError, match="snap from") as caught:
            iterate_in_subprocess(Given(Trap()), mp_context=method)
        assert caught.value.__notes__ == ["The worker subprocess quit. Failed to receive its work."]

    def test_fn_may_be_anything_where_it_is_forked(self) -> None:
        assert list(iterate_in_subprocess(lambda: [1], mp_context="fork")) == [1]


class TestSilence:
    def test_while_it_starts(self) -> None:
        with pytest.raises(TimeoutError, match=r"did not produce any data for 0\.2 seconds") as caught:
            iterate_in_subprocess(list, initializer=sleep_long, timeout=0.2)
        assert isinstance(caught.value, RuntimeError)

    def test_before_an_item(self) -> None:
        # The process has to begin in that time as well.
        items = iterate_in_subprocess(Silent(items=2), timeout=3, mp_context="fork")
        begun = iter(items)
        assert len([next(begun), next(begun)]) == 2
        with pytest.raises(TimeoutError, match="did not produce any data"):
            next(begun)
        with pytest.raises(RuntimeError, match=f"{DEAD}: The worker subprocess did not produce any data"):
            iter(items)

    @pytest.mark.parametrize("timeout", [float("inf"), 2**31 / 1000, 1e9, 1e300, 10**400])
    def test_any_length_of_it(self, timeout: float) -> None:
        """Timeouts longer than one system call can wait work, too."""
        items = iterate_in_subprocess(Silent(items=1, seconds=0.05), timeout=timeout, mp_context="fork")
        assert len(list(items)) == 2
        items.close()

    def test_none_of_it(self) -> None:
        """Time that the consumer takes does not count, nor does time while items arrive."""
        items = iterate_in_subprocess(Silent(items=3, seconds=0.4), timeout=20)
        assert len(list(items)) == 4


class TestExit:
    def test_in_an_initializer(self) -> None:
        with pytest.raises(RuntimeError, match=r"exited unexpectedly \(exit status 7\).* had not begun to work"):
            iterate_in_subprocess(list, initializer=exit_at_once)

    def test_in_the_iterable(self) -> None:
        def give() -> Any:
            yield 1
            exit_at_once()

        begun = iter(iterate_in_subprocess(give, mp_context="fork"))
        assert next(begun) == 1
        with pytest.raises(RuntimeError, match=r"^The worker subprocess exited unexpectedly \(exit status 7\)\.$"):
            next(begun)


class Tight:
    """An iterator whose `close` raises."""

    def __iter__(self) -> Tight:
        return Tight()

    def __next__(self) -> int:
        return 1

    def close(self) -> NoReturn:
        raise OSError("stuck")


def test_what_fails_when_a_pass_is_ended() -> None:
    items = iterate_in_subprocess(CannotClose, mp_context="fork")
    assert next(iter(items)) == 1
    with pytest.raises(OSError, match="stuck") as caught:
        list(items)
    assert caught.value.__notes__ == ["The worker subprocess quit. Failed to close the iterator."]


class CannotClose:
    def __iter__(self) -> Tight:
        return Tight()


def test_a_failed_pipeline_is_one_here_with_all_its_causes() -> None:
    """Any iterable may raise a PipelineFailure. See test_run_pipeline for pipelines."""
    cause = KeyError("cause")
    inner = RuntimeError("stage failed")
    inner.__cause__ = cause
    failure = PipelineFailure([("a", inner), ("b", TwoPartError(3, "/data"))])
    with pytest.raises(PipelineFailure) as caught:
        run(Raising("next", failure))
    first, second = caught.value.exceptions
    assert (type(first), str(first), type(first.__cause__)) == (RuntimeError, "stage failed", KeyError)
    assert "TwoPartError: code 3 at /data" in str(second)
    assert caught.value.__notes__ == ["The worker subprocess quit. Failed to fetch the next item."]
