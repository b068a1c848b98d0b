"""Runs a pipeline in a worker process, as an iterable that can be iterated again."""

from __future__ import annotations

from collections.abc import Iterator
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any

from spdl.pipeline._declare.op import place_of
from spdl.pipeline._declare.records import MergeConfig, PipelineConfig, SourceConfig
from spdl.pipeline._pipeline.build import build_pipeline
from spdl.pipeline._plan.pipeline_ids import next_pipeline_id, number_pipelines_from

from .executors import declare_executors, make_executors

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from spdl.pipeline._pipeline.pipeline import Pipeline

__all__ = ["PipelineRunner", "make_runner"]


def make_runner(config: PipelineConfig[Any], *, daemon: bool, **arguments: Any) -> PipelineRunner:
    """Return what runs a pipeline elsewhere.

    It takes a number from this process, so that the logs of the two name different pipelines.

    Args:
        config: The pipeline.
        daemon: Whether the process that runs it is to be one, which may have no children.
        **arguments: The other arguments of `build_pipeline`.

    Raises:
        ValueError: If a stage's executor cannot be made there.
    """
    return PipelineRunner(declare_executors(config, daemon=daemon), arguments, next_pipeline_id())


class PipelineRunner:
    """Builds a pipeline for each pass. With a continuous source, one pipeline goes on from pass to pass.

    Args:
        config: The pipeline.
        arguments: The other arguments of `build_pipeline`.
        pipeline_id: The number of the first pipeline in messages.
    """

    def __init__(self, config: PipelineConfig[Any], arguments: dict[str, Any], pipeline_id: int) -> None:
        self._config = config
        self._arguments = arguments
        self._pipeline_id = pipeline_id
        self._sources = list(_sources(config))
        # The pipeline for the next pass, if it was built already.
        self._ready: Pipeline[Any] | None = None
        self._passes = 0
        self._executors: list[Executor] = []

    def __call__(self) -> PipelineRunner:
        """Build the first pipeline, in the worker process, so that a mistake in an argument shows before any pass."""
        number_pipelines_from(self._pipeline_id)  # No pipeline was built here before.
        self._config, self._executors = make_executors(self._config)
        self._ready = self._build()
        return self

    def __iter__(self) -> Iterator[Any]:
        self._passes += 1
        if self._sources[0].continuous:
            return self._run_epoch()
        for source in self._sources if self._passes > 1 else ():
            if isinstance(source.source, GeneratorType | AsyncGeneratorType):
                raise _iterated_twice(source.source)
        return self._run()

    def close(self) -> None:
        """Stop the pipeline and the executors. A process waits for its children at exit, so pools must be ended."""
        if self._ready is not None:
            self._ready.stop()
        for executor in self._executors:
            executor.shutdown(cancel_futures=True)

    def _build(self) -> Pipeline[Any]:
        return build_pipeline(self._config, **self._arguments)

    def _run(self) -> Iterator[Any]:
        pipeline, self._ready = self._ready or self._build(), None
        empty = True
        with pipeline.auto_stop():
            for item in pipeline:
                empty = False
                yield item
        if empty and self._passes > 1:
            for source in self._sources:
                if isinstance(source.source, Iterator):
                    raise _iterated_twice(source.source)

    def _run_epoch(self) -> Iterator[Any]:
        pipeline, self._ready = self._ready or self._build(), None
        complete = False
        try:
            yield from pipeline
            complete = True
        finally:
            if complete:
                self._ready = pipeline
            else:
                # The items under way belong to an epoch that was left early.
                pipeline.stop()


def _sources(config: PipelineConfig[Any]) -> Iterator[SourceConfig[Any]]:
    if isinstance(config.src, MergeConfig):
        for branch in config.src.pipeline_configs:
            yield from _sources(branch)
    else:
        yield config.src


def _iterated_twice(source: object) -> RuntimeError:
    return RuntimeError(
        f"The source can be iterated only once, {place_of(source)}, and the pipeline was run again. Give a source that "
        "can be iterated again, such as a list or an object whose `__iter__` makes a generator."
    )
