"""Test the defaults of a process, and the environment variables."""

from __future__ import annotations

import functools
import inspect
import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import build, fails_at

from spdl.pipeline import BackgroundTask, PipelineFailure, config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The values that the reference accepts, also in other cases of the letters.
TRUE = ["1", "true", "TRUE", "True", "on", "ON", "yes", "YES", "Yes"]
FALSE = ["0", "false", "FALSE", "False", "off", "OFF", "no", "NO"]
MODE = "SPDL_PIPELINE_DIAGNOSTIC_MODE"
NUM_ITEMS = "SPDL_PIPELINE_DIAGNOSTIC_MODE_NUM_ITEMS"
COMPACT_LOG = "SPDL_PIPELINE_COMPACT_LOG"

# The names and signatures of spdl 0.8.0, taken from it by `inspect.signature`. If a default is a class there, ours is
# a placeholder for it.
REFERENCE = {
    "diagnostic_mode_num_sources": "()",
    "get_default_background_tasks": "()",
    "get_default_build_callback": "()",
    "get_default_hook_class": "()",
    "get_default_profile_callback": "()",
    "get_default_profile_hook": "()",
    "get_default_queue_class": "()",
    "is_diagnostic_mode_enabled": "()",
    "set_compact_log": "(value)",
    "set_default_background_tasks": "(tasks)",
    "set_default_build_callback": "(callback)",
    "set_default_hook_class": "(hook_class=<the library's own>)",
    "set_default_profile_callback": "(callback=None)",
    "set_default_profile_hook": "(hook=None)",
    "set_default_queue_class": "(queue_class=<the library's own>)",
}


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    yield
    config.set_compact_log(None)
    config.set_default_hook_class()
    config.set_default_queue_class()
    for forget in (
        config.set_default_background_tasks,
        config.set_default_build_callback,
        config.set_default_profile_callback,
        config.set_default_profile_hook,
    ):
        forget(None)


def test_names_and_signatures() -> None:
    assert set(config.__all__) == set(REFERENCE)
    for name, expected in REFERENCE.items():
        signature = inspect.signature(getattr(config, name))
        parameters = [
            parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()
        ]
        assert str(inspect.Signature(parameters)) == expected, name


def test_importing_it_loads_no_event_loop() -> None:
    code = "import sys, spdl.pipeline.config; print({'asyncio', 'multiprocessing', 'numpy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout == b"set()\n"


@pytest.mark.parametrize("word", TRUE + FALSE)
def test_words_for_diagnostic_mode(
    word: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(MODE, word)
    assert config.is_diagnostic_mode_enabled() is (word in TRUE)
    assert not caplog.records


def test_diagnostic_mode_is_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MODE, raising=False)
    assert config.is_diagnostic_mode_enabled() is False


@pytest.mark.parametrize("word", ["enabled", "2", " 1", ""])
def test_other_words_are_warned_of(
    word: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(MODE, word)
    assert config.is_diagnostic_mode_enabled() is False
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    for part in (MODE, repr(word), "true", "off"):
        assert part in record.getMessage()


def test_number_of_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NUM_ITEMS, raising=False)
    assert config.diagnostic_mode_num_sources() == 1000
    monkeypatch.setenv(NUM_ITEMS, "17")
    assert config.diagnostic_mode_num_sources() == 17


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many", ""])
def test_wrong_numbers_of_items(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NUM_ITEMS, value)
    with pytest.raises(ValueError, match=f"{NUM_ITEMS} must be an integer of at least 1, got {value!r}"):
        config.diagnostic_mode_num_sources()


def log_of_a_failure(caplog: pytest.LogCaptureFixture) -> tuple[str, bool]:
    """Return the log message of a failed op, and whether a traceback comes with it."""

    def op(_: int) -> None:
        raise OSError("disk\non fire")

    caplog.clear()
    with pytest.raises(PipelineFailure), build(range(1), op).auto_stop() as pipeline:
        list(pipeline)
    (record,) = caplog.records
    return record.getMessage(), record.exc_info is not None


def test_a_compact_log_has_one_line_for_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    config.set_compact_log(True)
    message, has_traceback = log_of_a_failure(caplog)
    assert not has_traceback
    assert "\n" not in message
    line = inspect.getsourcelines(log_of_a_failure)[1] + 4
    for part in ("'op'", "source item 0", "OSError: disk on fire", f"({__file__}:{line}:op)"):
        assert part in message


@pytest.mark.parametrize("value", [None, False])
def test_a_log_has_a_traceback_by_default(
    value: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(COMPACT_LOG, raising=False)
    config.set_compact_log(value)
    message, has_traceback = log_of_a_failure(caplog)
    assert has_traceback
    assert "OSError: disk\non fire" in message


@pytest.mark.parametrize(
    ("value", "word", "compact"),
    [(None, "1", True), (None, "off", False), (False, "1", False), (True, "0", True)],
)
def test_what_is_set_counts_more_than_the_environment(
    value: Any, word: str, compact: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(COMPACT_LOG, word)
    config.set_compact_log(value)
    assert log_of_a_failure(caplog)[1] is not compact


def test_a_wrong_word_for_the_compact_log_is_warned_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(COMPACT_LOG, "compact, please")
    with build(range(5), fails_at(1, 2, 3)).auto_stop() as pipeline:
        assert sorted(pipeline) == [0, 4]
    levels = [record.levelno for record in caplog.records]
    assert sorted(levels) == [logging.WARNING] + 3 * [logging.ERROR]


@pytest.mark.parametrize("value", ["False", 2, 1.0, []])
def test_wrong_values_for_the_compact_log(value: Any) -> None:
    with pytest.raises(TypeError, match="`value` must be True or False"):
        config.set_compact_log(value)


class Hook:
    """A class that has the methods of a TaskHook, but does not derive from it."""

    def task_hook(self) -> None: ...


class Queue:
    def get(self) -> None: ...
    def put(self) -> None: ...


class ProfileHook:
    def stage_profile_hook(self) -> None: ...
    def pipeline_profile_hook(self) -> None: ...


ROUND_TRIPS = [
    ("hook_class", Hook),
    ("hook_class", functools.partial(Hook)),
    ("hook_class", None),
    ("queue_class", Queue),
    ("queue_class", functools.partial(Queue)),
    ("profile_hook", ProfileHook()),
    ("profile_hook", None),
    ("profile_callback", print),
    ("profile_callback", None),
    ("build_callback", print),
    ("build_callback", None),
    ("background_tasks", [BackgroundTask, print]),
    ("background_tasks", []),
    ("background_tasks", None),
]


def setter(name: str) -> Callable[..., None]:
    function: Callable[..., None] = getattr(config, f"set_default_{name}")
    return function


def getter(name: str) -> Callable[[], Any]:
    function: Callable[[], Any] = getattr(config, f"get_default_{name}")
    return function


@pytest.mark.parametrize(("name", "value"), ROUND_TRIPS)
def test_what_is_set_is_got(name: str, value: Any) -> None:
    setter(name)(value)
    assert getter(name)() == value


@pytest.mark.parametrize("name", ["profile_hook", "profile_callback", "build_callback", "background_tasks"])
def test_there_is_none_by_default(name: str) -> None:
    assert getter(name)() is None


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("hook_class", 3, "a subclass of TaskHook or None"),
        ("hook_class", int, "a subclass of TaskHook or None"),
        ("queue_class", "StatsQueue", "a subclass of AsyncQueue or None"),
        ("queue_class", list, "a subclass of AsyncQueue or None"),
        ("profile_hook", ProfileHook, "an instance of a subclass of ProfileHook, or None"),
        ("profile_hook", print, "an instance of a subclass of ProfileHook, or None"),
        ("profile_callback", 3, "a callable or None"),
        ("build_callback", [print], "a callable or None"),
        ("background_tasks", BackgroundTask, "a list of callables without arguments, or None"),
        ("background_tasks", [BackgroundTask, BackgroundTask()], "a list of callables without arguments, or None"),
    ],
)
def test_wrong_values_change_nothing(name: str, value: Any, accepted: str) -> None:
    line = inspect.currentframe().f_lineno + 2  # type: ignore[union-attr]
    with pytest.raises(TypeError, match=accepted) as caught:
        setter(name)(value)
    assert f"{__file__}:{line}" in str(caught.value)
    if name not in ("hook_class", "queue_class"):
        assert getter(name)() is None


def test_the_list_of_tasks_is_copied() -> None:
    tasks: list[Any] = [BackgroundTask]
    config.set_default_background_tasks(tasks)
    tasks.append(print)
    got = config.get_default_background_tasks()
    assert got == [BackgroundTask]
    got.clear()
    assert config.get_default_background_tasks() == [BackgroundTask]


def test_the_build_callback_sees_each_declaration_first() -> None:
    seen: list[Any] = []
    config.set_default_build_callback(seen.append)
    pipeline = build(range(3), str, concurrency=2)
    (declaration,) = seen
    assert [stage.name for stage in declaration.pipes] == ["str"]
    assert declaration.pipes[0].concurrency == 2
    # The callback also gets a declaration that then cannot be built.
    with pytest.raises(ValueError, match="num_threads"):
        build(num_threads=0)
    assert len(seen) == 2
    with pipeline.auto_stop():
        assert len(list(pipeline)) == 3


def test_a_build_callback_that_raises_is_logged_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    def callback(_: object) -> None:
        raise KeyError("no such run")

    config.set_default_build_callback(callback)
    with build(range(3)).auto_stop() as pipeline:
        assert list(pipeline) == [0, 1, 2]
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "callback" in record.getMessage()
    assert "KeyError: 'no such run'" in record.getMessage()
