"""The pipeline that `build_pipeline` returns in diagnostic mode. It profiles instead of running."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from spdl._check import check_timeout
from spdl.pipeline._declare import defaults
from spdl.pipeline._failures.pipeline_failure import PipelineFailure
from spdl.pipeline._pipeline.iterator import PipelineIterator
from spdl.pipeline._pipeline.pipeline import Pipeline

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

    If it is the source of another pipeline, it runs as usual, since the other pipeline is read first and profiled. If
    the source is in a worker process, it cannot know of the pipeline in the parent, so the source is profiled.

    Args:
        engine: The engine that would have run.
        config: The declaration of the pipeline.
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
        """Return an iterator whose first ``next`` profiles the pipeline and ends the process."""
        if Diagnosis._under_way:
            self._runs = True
            return super().get_iterator(timeout=timeout)
        return _DiagnosisIterator(self, check_timeout("timeout", timeout))

    def _diagnose(self) -> NoReturn:
        Diagnosis._under_way = True
        try:
            profile_pipeline(self._config, defaults.diagnostic_mode_num_sources(), callback=_report)
        except PipelineFailure as failure:
            # If the source is a pipeline in a worker process, it was read first and has been profiled.
            if not any(isinstance(error.__cause__, Diagnosed) for error in failure.exceptions):
                raise
        finally:
            Diagnosis._under_way = False
        raise Diagnosed(0)


def _report(result: ProfileResult) -> None:
    # The result is the only purpose of this process, so it must not depend on how logging was set up.
    if not logging.getLogger("spdl.pipeline").isEnabledFor(logging.INFO):
        sys.stderr.write(f"{result}\n")
    callback = defaults.get_default_profile_callback()
    if callback is not None:
        callback(result)


class _DiagnosisIterator(PipelineIterator[Any]):
    """An iterator that reads from a `Diagnosis`."""

    __slots__ = ()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return self._pipeline.get_item()
