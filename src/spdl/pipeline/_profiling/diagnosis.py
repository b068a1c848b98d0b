"""What `build_pipeline` returns in diagnostic mode: it looks like a pipeline, and profiles instead of running."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from spdl._check import check_timeout
from spdl.pipeline._declare import defaults
from spdl.pipeline._failures.failure import PipelineFailure
from spdl.pipeline._pipeline.pipeline import Pipeline, PipelineIterator

from .diagnosed import Diagnosed
from .profile_pipeline import profile_pipeline

if TYPE_CHECKING:
    from spdl.pipeline._declare.records import PipelineConfig
    from spdl.pipeline._engine.engine import Engine

    from .profile_result import ProfileResult

__all__ = ["Diagnosis"]

T = TypeVar("T")


class Diagnosis(Pipeline[T]):
    """A pipeline whose first read profiles it and ends the process.

    One that is the source of another runs as usual: it is the other one that is read first. One in a worker process
    cannot know of another in the parent, so there it is the one in the worker process.

    Args:
        engine: What would have run.
        config: Its declaration.
    """

    _under_way = False

    def __init__(self, engine: Engine, config: PipelineConfig[T]) -> None:
        super().__init__(engine, str(config))
        self._config = config
        self._runs = False

    def start(self, *, timeout: float | None = None, **kwargs: object) -> None:
        """Do nothing."""
        if self._runs:
            super().start(timeout=timeout, **kwargs)

    def stop(self, *, timeout: float | None = None) -> None:
        """Do nothing."""
        if self._runs:
            super().stop(timeout=timeout)

    def get_item(self, *, timeout: float | None = None) -> T:
        """Profile the pipeline and end the process.

        Raises:
            SystemExit: With the status 0.
        """
        check_timeout("timeout", timeout)
        self._diagnose()

    def get_iterator(self, *, timeout: float | None = None) -> PipelineIterator[T]:
        """Return an iterator whose first ``next`` does as `get_item`."""
        if Diagnosis._under_way:
            self._runs = True
            return super().get_iterator(timeout=timeout)
        return _DiagnosisIterator(self, check_timeout("timeout", timeout))

    def _diagnose(self) -> NoReturn:
        Diagnosis._under_way = True
        try:
            profile_pipeline(self._config, defaults.diagnostic_mode_num_sources(), callback=_report)
        except PipelineFailure as failure:
            # Where the source is a pipeline in a worker process, that one was read first.
            if not any(isinstance(error.__cause__, Diagnosed) for error in failure.exceptions):
                raise
        finally:
            Diagnosis._under_way = False
        raise Diagnosed(0)


def _report(result: ProfileResult) -> None:
    # It is all that this process is for, so it must not depend on how logging was set up.
    if not logging.getLogger("spdl.pipeline").isEnabledFor(logging.INFO):
        sys.stderr.write(f"{result}\n")
    callback = defaults.get_default_profile_callback()
    if callback is not None:
        callback(result)


class _DiagnosisIterator(PipelineIterator[Any]):
    """Reads from a `Diagnosis`."""

    __slots__ = ()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self._pipeline.get_item()
