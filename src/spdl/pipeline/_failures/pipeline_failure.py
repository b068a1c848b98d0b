"""The exception of a failed pipeline."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Self

from .error_text import message_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PipelineFailure"]


class PipelineFailure(ExceptionGroup[Exception]):
    """Raised to the consumer when a stage failed as a whole.

    It comes after the items that were finished before the failure, at the read that would have waited for the next
    one, and again at every later read. ``exceptions`` holds the original exceptions, one per failed stage, each
    with a note that names the stage.

    Items that fail on their own are dropped, logged and counted. They raise it only if they are more than
    ``max_failures``, or if every item of the run or of an epoch failed.

    Example:
        >>> from spdl.pipeline import PipelineBuilder, PipelineFailure
        >>> def source():
        ...     yield 1
        ...     raise OSError("disk on fire")
        >>> pipeline = PipelineBuilder().add_source(source()).add_sink(1).build(num_threads=1)
        >>> with pipeline.auto_stop():
        ...     try:
        ...         for item in pipeline:
        ...             print(item)
        ...     except* OSError as group:
        ...         print(group.exceptions[0])
        1
        disk on fire
    """

    def __new__(cls, errs: Sequence[tuple[str, BaseException]]) -> Self:
        """Gather the failures, sorted by stage name.

        Args:
            errs: ``(stage name, exception)`` pairs. An exception that is no `Exception` (`KeyboardInterrupt`,
                `SystemExit`) is wrapped in a `RuntimeError` whose cause it is, so that ``except Exception`` sees it.
        """
        exceptions = [_as_exception(error) for _, error in sorted(errs, key=lambda failure: failure[0])]
        return super().__new__(cls, "pipeline stages failed", exceptions)

    def __init__(self, errs: Sequence[tuple[str, BaseException]]) -> None:  # noqa: ARG002 - __new__ took them.
        super().__init__("pipeline stages failed", list(self.exceptions))

    def __reduce__(self) -> tuple[object, ...]:
        # By default it would be made anew of its message. Processes hand exceptions over as pickles.
        return PipelineFailure, ([("", error) for error in self.exceptions],), self.__dict__ or None

    def derive(self, excs: Sequence[Exception]) -> PipelineFailure:  # type: ignore[override]
        """Build the part that ``except*`` or ``split`` leaves.

        Args:
            excs: The failures that are left.

        Returns:
            A `PipelineFailure` of these alone; their stages are not known any more.

        Raises:
            ValueError: If there are none.
        """
        return PipelineFailure([("", error) for error in excs])


def _as_exception(error: BaseException) -> Exception:
    if isinstance(error, Exception):
        return error
    wrapped = RuntimeError(f"A stage raised {type(error).__name__}, which stops the pipeline: {message_of(error)}")
    wrapped.__cause__ = error
    with contextlib.suppress(Exception):
        wrapped.__notes__ = list(error.__notes__)
    return wrapped
