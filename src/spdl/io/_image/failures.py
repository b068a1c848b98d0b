"""What becomes of a batch whose images failed in part, or all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, get_args

from spdl._check import check_choice, refuse
from spdl.io._common.errors import LoadError, LoadFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spdl.io._native import CPUBuffer, CUDABuffer

OnError: TypeAlias = Literal["raise", "skip", "zero", "partial"]

_ON_ERROR = get_args(OnError)
_SHOWN_FAILURES = 5

BufferT = TypeVar("BufferT", bound="CPUBuffer | CUDABuffer")


def on_error_of(strict: bool | None, on_error: OnError | None) -> OnError:  # noqa: FBT001 - the argument itself.
    """Return the treatment of images that fail, from both arguments that say it.

    Raises:
        ValueError: If it is not known, or both are given.
    """
    if on_error is None:
        return "skip" if strict is False else "raise"
    if strict is not None:
        refuse(ValueError, "on_error", f"None with `strict={strict!r}`, which says the same", on_error)
    check_choice("on_error", on_error, _ON_ERROR)
    return on_error


def settle(
    buffer: BufferT | None,
    failures: Sequence[LoadFailure],
    errors: OnError,
    inputs: str,
    describe: Callable[[LoadFailure], str],
) -> BufferT:
    """Return a batch that knows its failures. `inputs` says of what, such as "3 images".

    Raises:
        LoadError: If there are failures, and these are to be raised, or nothing was loaded.
    """
    if failures and (errors == "raise" or buffer is None):
        raise LoadError(_summary(failures, errors, inputs, describe), tuple(failures))
    if buffer is None:  # pragma: no cover - without a reason there is a result.
        raise AssertionError
    if failures:
        buffer._set_failures(tuple(failures))  # noqa: SLF001
    return buffer


def _summary(
    failures: Sequence[LoadFailure], errors: OnError, inputs: str, describe: Callable[[LoadFailure], str]
) -> str:
    lines = [f"{len(failures)} of {inputs} could not be loaded"]
    lines += [f"  srcs[{each.index}], {describe(each)}: {each.reason}" for each in failures[:_SHOWN_FAILURES]]
    if len(failures) > _SHOWN_FAILURES:
        lines.append(f"  and {len(failures) - _SHOWN_FAILURES} more")
    if errors in ("zero", "partial"):
        lines.append("The size of their zeros is unknown: give both width and height.")
    if errors == "raise":
        lines.append(
            'Pass on_error="skip" to leave these out of the batch, or on_error="zero" to keep their places; its '
            "`failures` then lists them."
        )
    return "\n".join(lines)
