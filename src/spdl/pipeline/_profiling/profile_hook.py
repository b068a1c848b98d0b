"""The base class for users' hooks around the measurements of a profile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["ProfileHook"]


class ProfileHook(ABC):
    """Context managers around a profile and each of its measurements: for a tracer, a progress display, a sampler.

    They are entered and left in the thread that calls `profile_pipeline`. An exception in one ends the profile.

    Example:
        >>> import time
        >>> from contextlib import contextmanager
        >>> from spdl.pipeline import PipelineBuilder, ProfileHook, profile_pipeline
        >>> class Narrator(ProfileHook):
        ...     @contextmanager
        ...     def pipeline_profile_hook(self):
        ...         yield
        ...         print("done")
        ...
        ...     @contextmanager
        ...     def stage_profile_hook(self, stage, concurrency):
        ...         print(stage, concurrency)
        ...         yield
        >>> builder = PipelineBuilder().add_source(range(9)).aggregate(3).add_sink()
        >>> results = profile_pipeline(builder.get_config(), hook=Narrator())
        aggregate(op=collate(3), drop_last=False) 1
        done
    """

    @abstractmethod
    def stage_profile_hook(self, stage: str, concurrency: int) -> AbstractContextManager[object]:
        """Wrap the measurement of one stage with one number of threads.

        Args:
            stage: The stage's name, as in `ProfileResult`.
            concurrency: How many items the stage works on at once.

        Returns:
            A context manager. An exception that it raises ends the profile, and `profile_pipeline` raises it.

        Raises:
            Exception: Any exception ends the profile, and `profile_pipeline` raises it.
        """

    @abstractmethod
    def pipeline_profile_hook(self) -> AbstractContextManager[object]:
        """Wrap the whole profile, including the reading of the source.

        Returns:
            A context manager. An exception that it raises ends the profile, and `profile_pipeline` raises it.
        """
