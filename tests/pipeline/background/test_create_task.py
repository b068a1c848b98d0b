"""asyncio tasks whose failure is logged."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from spdl.pipeline import config, create_task

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator


@pytest.fixture(autouse=True)
def log_in_full() -> Iterator[None]:
    config.set_compact_log(False)
    yield
    config.set_compact_log(None)


async def fail(message: str = "disk\non fire") -> None:
    raise OSError(message)


async def answer() -> int:
    await asyncio.sleep(0)
    return 42


def run(coroutine: Coroutine[Any, Any, Any], **options: Any) -> Any:
    """Return the result of a task, or the exception that it raised."""

    async def main() -> Any:
        outcomes: Any = await asyncio.gather(create_task(coroutine, **options), return_exceptions=True)
        await asyncio.sleep(0)
        return outcomes[0]

    return asyncio.run(main())


def test_it_is_a_task(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> tuple[int, str]:
        task = create_task(answer(), "ask")
        assert isinstance(task, asyncio.Task)
        return await task, task.get_name()

    assert asyncio.run(main()) == (42, "ask")
    assert not caplog.records


def test_what_it_raises_is_logged_and_still_raised(caplog: pytest.LogCaptureFixture) -> None:
    error = run(fail(), name="burn")
    assert isinstance(error, OSError)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == "Task 'burn' failed: OSError: disk\non fire"
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def test_a_compact_log_has_one_line(caplog: pytest.LogCaptureFixture) -> None:
    config.set_compact_log(True)
    run(fail(), name="burn")
    (record,) = caplog.records
    place = f"{__file__}:{fail.__code__.co_firstlineno + 1}:fail"
    assert record.getMessage() == f"Task 'burn' failed: OSError: disk on fire ({place})"
    assert not record.exc_info


@pytest.mark.parametrize("log_cancelled", [True, False])
def test_cancelling_is_logged_if_asked_for(log_cancelled: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        task = create_task(asyncio.sleep(60), "wait", log_cancelled=log_cancelled)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert [record.getMessage() for record in caplog.records] == log_cancelled * ["Task 'wait' was cancelled."]


def test_repeated_errors_are_counted_instead_of_logged(caplog: pytest.LogCaptureFixture) -> None:
    # The op has a single line, so all errors come from one place. It is compiled here, so that no other test has
    # counted errors of that place.
    namespace: dict[str, Any] = {}
    exec(compile("async def op(x):\n    raise ValueError(x)", f"<{id(namespace)}>", "exec"), namespace)  # noqa: S102
    for number in range(25):
        run(
            namespace["op"](number),
            suppress_repeated_logs=True,
            suppression_threshold=3,
            suppression_warning_interval=10,
        )
    place = f"<{id(namespace)}>:2:op"
    assert [
        (record.levelno, record.getMessage().partition(" failed: ")[2] or record.getMessage())
        for record in caplog.records
    ] == [
        (logging.ERROR, "ValueError: 0"),
        (logging.ERROR, "ValueError: 1"),
        (logging.WARNING, f"Errors repeat at {place}, and are no longer logged one by one."),
        (logging.WARNING, f"10 errors so far at {place}."),
        (logging.WARNING, f"20 errors so far at {place}."),
    ]
    # Errors of calls without suppression are logged, and so are errors from other places.
    caplog.clear()
    run(namespace["op"](25))
    run(fail(), suppress_repeated_logs=True, suppression_threshold=2)
    assert [record.levelno for record in caplog.records] == 2 * [logging.ERROR]


def test_a_task_that_nobody_holds_is_finished() -> None:
    """The loop holds its tasks weakly, and this one waits for a future that only the task itself holds."""
    done: list[int] = []

    async def main() -> None:
        handles: list[weakref.ref[asyncio.Future[None]]] = []

        async def work() -> None:
            waiting = asyncio.get_running_loop().create_future()
            handles.append(weakref.ref(waiting))
            await waiting
            done.append(1)

        create_task(work())
        await asyncio.sleep(0)
        gc.collect()
        waiting = handles[0]()
        assert waiting is not None
        waiting.set_result(None)
        del waiting
        await asyncio.sleep(0.01)

    asyncio.run(main())
    assert done == [1]


def test_outside_of_a_loop() -> None:
    coroutine = answer()
    with pytest.raises(RuntimeError, match="no running event loop"):
        create_task(coroutine)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"suppression_threshold": 0}, ValueError),
        ({"suppression_warning_interval": "100"}, TypeError),
        ({"suppress_repeated_logs": "yes"}, TypeError),
        ({"log_cancelled": 2}, TypeError),
    ],
)
def test_wrong_arguments(options: dict[str, Any], error: type[Exception]) -> None:
    async def main() -> None:
        coroutine = answer()
        with pytest.raises(error, match=next(iter(options))):
            create_task(coroutine, **options)
        # Otherwise Python would complain that the coroutine was never awaited.
        assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


class Unnamed:
    """An object whose text cannot be read."""

    def __str__(self) -> str:
        raise OSError("no name")


def test_a_name_that_cannot_be_shown() -> None:
    async def main() -> None:
        coroutine = answer()
        with pytest.raises(OSError, match="no name"):
            create_task(coroutine, Unnamed())  # type: ignore[arg-type]
        assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


@pytest.mark.parametrize("wrong", [answer, 3, None])
def test_what_is_no_coroutine(wrong: Any) -> None:
    async def main() -> None:
        with pytest.raises(TypeError, match="a coroutine was expected"):
            create_task(wrong)

    asyncio.run(main())
