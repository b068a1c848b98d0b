"""Builds a pipeline from its declaration."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from spdl._check import check_flag, check_int, check_max_failures, check_number, positive, refuse
from spdl._cores import available_cores, default_threads
from spdl._locate import warn_caller
from spdl.pipeline._declare import defaults
from spdl.pipeline._declare.op import place_of
from spdl.pipeline._declare.records import MaxFailures, PipelineConfig
from spdl.pipeline._pipeline import Pipeline
from spdl.pipeline._report.failures import log_error

if TYPE_CHECKING:
    from spdl.pipeline._declare.interfaces import BackgroundTaskFactory
    from spdl.pipeline._graph import QueueClass, TaskHookFactory

# What Python says when it turns the GIL on.
_SAID = re.compile(r"\(GIL\) has been enabled to load module '([^']+)'")


def warn_of_gil() -> None:
    """Warn the caller if an import has turned the GIL on. Python says it once, when it happens, among other output.

    Nothing is said where the user has asked for the GIL (``PYTHON_GIL=1``, ``-X gil=1``).
    """
    if "t" not in getattr(sys, "abiflags", "") or not sys._is_gil_enabled() or sys.flags.gil:  # type: ignore[attr-defined, unused-ignore]  # noqa: SLF001 - new in Python 3.13.
        return
    names = _modules_that_were_named()
    cause = f"importing {', '.join(names)} has turned it on" if names else "an import has turned it on"
    warn_caller(
        f"This Python can run without a GIL, but {cause} for the whole process: threads run ops that are written in "
        "Python one at a time. Use a version of the module that declares support for free threading, or leave it to "
        "another process. At your own risk, `PYTHON_GIL=0` keeps the GIL off whatever is imported."
    )


def _modules_that_were_named() -> list[str]:
    """Return the names of the modules that, by Python's warning, turned the GIL on.

    It says so in a warning, of the first such module only. A module remembers in ``__warningregistry__`` what was
    warned of in it, so that nothing is said twice; where the user has Python ignore warnings, nothing is remembered.
    """
    registries = [getattr(module, "__dict__", {}).get("__warningregistry__") for module in list(sys.modules.values())]
    keys = [key for registry in registries if isinstance(registry, dict) for key in list(registry)]
    # A key begins with the text. The registry has other entries, too.
    texts = [str(key[0]) for key in keys if isinstance(key, tuple) and key]
    return sorted({found[1] for text in texts if (found := _SAID.search(text))})


_LOG = logging.getLogger("spdl.pipeline")


_answering: threading.Thread | None = None


def answer(path: str) -> None:
    """Start a thread that answers requests at a path, unless one runs. Called with an engine's lock held."""
    global _answering  # noqa: PLW0603
    # In a forked process it is not alive.
    if _answering is not None and _answering.is_alive():
        return
    thread = threading.Thread(target=_answer, args=(path,), name="spdl_record_thread", daemon=True)
    # The system may have no thread left, or the interpreter ends.
    with suppress(RuntimeError):
        thread.start()
        _answering = thread


def _answer(path: str) -> None:
    try:
        from spdl.observe._trace.answer import answer as record_and_send  # noqa: PLC0415 - rarely needed.

        record_and_send(path)
    except Exception as error:  # noqa: BLE001 - the program must neither show it nor end for it.
        # The package may have been replaced by another version since the program began.
        _LOG.warning("The pipelines could not be recorded: %r", error)
        # Else this would be tried again a hundred times a second. The thread that asks sees it.
        with suppress(OSError):
            Path(path).unlink()


T = TypeVar("T")


def build_pipeline(
    pipeline_cfg: PipelineConfig[T],
    /,
    *,
    num_threads: int | None = None,
    max_failures: MaxFailures = -1,
    report_stats_interval: float = -1,
    queue_class: QueueClass | None = None,
    task_hook_factory: TaskHookFactory | None = None,
    stage_id: int = 0,
    background_tasks: Sequence[BackgroundTaskFactory] | None = None,
    use_thread_output_queue: bool = False,
    autotune: bool = False,
    max_bytes: int | None = None,
) -> Pipeline[T]:
    """Build a pipeline from its declaration. No thread is started yet.

    If the environment variable ``SPDL_PIPELINE_DIAGNOSTIC_MODE`` asks for it (see
    `spdl.pipeline.config.is_diagnostic_mode_enabled`), the pipeline will not run. Instead its first read calls
    `profile_pipeline`, writes the results to the log (or to stderr if the log does not show INFO), and ends the process
    with status 0 (by `SystemExit`).

    Args:
        pipeline_cfg: The declaration: returned by `PipelineBuilder.get_config`, or made from the records in
            `spdl.pipeline.defs`.
        num_threads, max_failures, report_stats_interval, queue_class, task_hook_factory, stage_id: As for
            `PipelineBuilder.build`.
        background_tasks: Tasks that run beside the stages, on the pipeline's event loop: callables without arguments
            that return a `BackgroundTask`, such as subclasses of it. The default tasks of the process
            (`spdl.pipeline.config.set_default_background_tasks`) precede them.
        use_thread_output_queue, autotune, max_bytes: As for `PipelineBuilder.build`; the last one in bytes.

    Returns:
        The pipeline. It starts at `Pipeline.start`, at `Pipeline.auto_stop`, or at the first read.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> from spdl.pipeline import build_pipeline
        >>> from spdl.pipeline.defs import Merge, PipelineConfig, Pipe, SinkConfig, SourceConfig
        >>> odd, even = (PipelineConfig(SourceConfig(range(i, 6, 2)), [], SinkConfig(1)) for i in (1, 0))
        >>> config = PipelineConfig(Merge([odd, even]), [Pipe(lambda x: 10 * x)], SinkConfig(3))
        >>> with build_pipeline(config, num_threads=1).auto_stop() as pipeline:
        ...     print(sorted(pipeline))
        [0, 10, 20, 30, 40, 50]
    """
    # Imported here because declaring pipelines needs none of these modules, which are half of the package.
    from spdl.pipeline._graph import Instrumentation, plan  # noqa: PLC0415
    from spdl.pipeline._report.page_file import add_engine, answer_by  # noqa: PLC0415

    if not isinstance(pipeline_cfg, PipelineConfig):
        remedy = "A builder's `get_config()` makes one." if hasattr(pipeline_cfg, "get_config") else ""
        refuse(TypeError, "pipeline_cfg", "a PipelineConfig", pipeline_cfg, remedy)
    _call_back(pipeline_cfg)
    threads = default_threads(available_cores()) if num_threads is None else positive("num_threads", num_threads)
    limit = check_max_failures(max_failures)
    first_id = check_int("stage_id", stage_id, least=0)
    check_flag("use_thread_output_queue", use_thread_output_queue)
    autotune = check_flag("autotune", autotune)
    bound = None if max_bytes is None else positive("max_bytes", max_bytes)
    tasks = defaults.get_default_background_tasks() or []
    if background_tasks is not None:
        tasks += defaults.check_background_tasks("background_tasks", background_tasks)
    interval = check_number("report_stats_interval", report_stats_interval)
    for name, value in (("queue_class", queue_class), ("task_hook_factory", task_hook_factory)):
        if value is not None and not callable(value):
            refuse(TypeError, name, "callable or None", value)
    warn_of_gil()
    description = str(pipeline_cfg)
    try:
        engine = plan(
            pipeline_cfg,
            num_threads=threads,
            max_failures=limit,
            max_bytes=bound,
            stage_id=first_id,
            instrumentation=Instrumentation(task_hook_factory, queue_class, interval),
            background=tasks,
        )
    except Exception as error:
        error.add_note(description)
        raise
    if (folder := os.environ.get(defaults.TRACE_FOLDER)) and defaults.CHOSEN.recorder is None:
        from spdl.observe._trace.folder import record_into_folder  # noqa: PLC0415 - `spdl record` asks for it.

        record_into_folder(folder)
    # Before the look for a recorder: the thread that begins to record now sees to it, or it is seen here.
    add_engine(engine)
    answer_by(answer)
    if (recorder := defaults.CHOSEN.recorder) is not None:
        from spdl.pipeline._stages.tracing import attach  # noqa: PLC0415 - rarely needed.

        attach(engine, recorder)
    if defaults.is_diagnostic_mode_enabled():
        from spdl.pipeline._profile import Diagnosis  # noqa: PLC0415 - rarely needed.

        return Diagnosis(engine, pipeline_cfg)
    tuner = None
    if autotune:
        from spdl.tune._tuner import Tuner  # noqa: PLC0415 - others have no use for it.

        tuner = Tuner(engine, threads_pinned=num_threads is not None)
    return Pipeline(engine, description, pipeline_cfg, tuner)


def _call_back(config: PipelineConfig[Any]) -> None:
    callback = defaults.get_default_build_callback()
    if callback is None:
        return
    try:
        callback(config)
    except Exception as error:  # noqa: BLE001 - no error of it may keep the pipeline from being built.
        log_error(error, "The default build callback %s raised, which is ignored", place_of(callback))
