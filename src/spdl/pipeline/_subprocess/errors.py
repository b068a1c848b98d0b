"""Errors of a worker process, and how its parent raises them."""

from __future__ import annotations

from typing import NamedTuple

from spdl.pipeline._failures.pipeline_failure import PipelineFailure
from spdl.pipeline._nodes.executors.process_work import Raised, WorkerTraceback, pack_error
from spdl.pipeline._profiling.diagnosed import Diagnosed

__all__ = ["WorkerError", "WorkerTimeoutError"]


class WorkerTimeoutError(RuntimeError, TimeoutError):
    """Raised when a worker process sends nothing for too long."""


class _Member(NamedTuple):
    """An exception of a failed pipeline, with its cause, which pickling would lose."""

    raised: Raised
    cause: Raised | None

    @classmethod
    def of(cls, error: BaseException) -> _Member:
        return cls(pack_error(error), None if error.__cause__ is None else pack_error(error.__cause__))

    def unpack(self) -> BaseException:
        error = self.raised.unpack()
        if self.cause is not None:
            error.__cause__ = self.cause.unpack()
        return error


class WorkerError(NamedTuple):
    """An exception of the worker, and a sentence that says what failed there."""

    what: str
    raised: Raised
    # The exceptions of a failed pipeline, packed one by one: one that cannot be pickled must not hide the others.
    members: list[_Member] | None

    @classmethod
    def of(cls, what: str, error: BaseException) -> WorkerError:
        """Pack an exception that was just raised."""
        members = [_Member.of(member) for member in error.exceptions] if isinstance(error, PipelineFailure) else None
        return cls(what, pack_error(error), members)

    def unpack(self) -> Exception | Diagnosed:
        """Return the exception, with the worker's traceback as its cause. It keeps its type if it can be pickled."""
        note = f"The worker subprocess quit. {self.what}"
        if self.members is not None:
            error: BaseException = PipelineFailure([("", member.unpack()) for member in self.members])
            error.__cause__ = WorkerTraceback(self.raised.traceback)
        else:
            error = self.raised.unpack()
        if isinstance(error, Diagnosed):
            return error
        if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration):
            error.add_note(f"{note}.")
            return error
        # Any other exception would end this process, or a loop, without saying why.
        wrapped = RuntimeError(f"{note}: {self.raised.description}")
        wrapped.__cause__ = error
        return wrapped
