"""Inputs that cannot be loaded: the errors and records of them, and what becomes of their batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from spdl._check import check_choice, escaped, refuse

if TYPE_CHECKING:
    from spdl.io._native import CPUBuffer, CUDABuffer


class FormatError(ValueError, RuntimeError):
    """Raised when an array or archive is damaged, contradicts itself, or holds something that is refused.

    The message names the file or member, the position, what was found there, and what is accepted. The error is a
    `ValueError`, and also a `RuntimeError`, which spdl 0.8.0 raises in some of these cases.

    Attributes:
        path: The file or object: its path, as given or in its store, or its URL. None if the content came from memory
            or a stream.

    Example:
        >>> try:
        ...     load_npy(b"no array")
        ... except FormatError as error:
        ...     print(type(error).__mro__[1].__name__, error.path)
        ValueError None
    """

    def __init__(self, *args: object, path: str | None = None) -> None:
        super().__init__(*args)
        self.path = path

    def __str__(self) -> str:
        # Names of files and members are in it, and beginnings of their contents.
        return escaped(super().__str__())


def name_path(error: FormatError, path: str) -> None:
    """Note which file an error is about, unless that is known."""
    if error.path is None:
        error.path = path


class LoadError(RuntimeError):
    """Raised by `load_image_batch` and its relatives for masks, video and audio if inputs fail that may not.

    Attributes:
        failures: The inputs that failed: for each the index, the input itself and the reason.

    Example:
        >>> try:
        ...     load_image_batch([photo, b"no image"], width=32, height=32)
        ... except LoadError as error:
        ...     print([failure.index for failure in error.failures])
        [1]
    """

    def __init__(self, message: str, failures: tuple[LoadFailure, ...] = ()) -> None:
        super().__init__(message)
        self.failures = failures


class LoadFailure(NamedTuple):
    """An input that failed: `load_image_batch` left it out, put zeros in its place, or kept the part that it decoded.

    Example:
        >>> batch = load_image_batch([photo, b"no image"], width=64, height=64, on_error="skip")
        >>> [(failure.index, failure.source) for failure in batch.failures]
        [(1, b'no image')]
    """

    index: int  # type: ignore[assignment]  # Shadows tuple.index, which a record does not need.
    """Its position among the inputs, from 0."""
    source: Any
    """The input that was given."""
    reason: str
    """The error message."""


# ---- batches with failures ----

OnError: TypeAlias = Literal["raise", "skip", "zero", "partial"]

_ON_ERROR = get_args(OnError)
_SHOWN_FAILURES = 5

BufferT = TypeVar("BufferT", bound="CPUBuffer | CUDABuffer")


def on_error_of(strict: bool | None, on_error: OnError | None) -> OnError:  # noqa: FBT001 - the argument itself.
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
    *,
    unknown: str = "The size of their zeros is unknown: give both width and height.",
    listed: str = "failures",
) -> BufferT:
    """Return a batch that knows its failures, or raise a LoadError; None is a batch with nothing in it.

    For messages, `inputs` is the inputs with their number, such as "3 images", `describe` names one that failed,
    `unknown` is the remedy if zeros would have no known size, and `listed` the result's attribute with the failures.
    """
    if failures and (errors == "raise" or buffer is None):
        lines = [f"{len(failures)} of {inputs} could not be loaded"]
        lines += [f"  srcs[{each.index}], {describe(each)}: {each.reason}" for each in failures[:_SHOWN_FAILURES]]
        if len(failures) > _SHOWN_FAILURES:
            lines.append(f"  and {len(failures) - _SHOWN_FAILURES} more")
        if errors in ("zero", "partial"):
            lines.append(unknown)
        if errors == "raise":
            lines.append(
                'Pass on_error="skip" to leave these out of the batch, or on_error="zero" to keep their places; its '
                f"`{listed}` then lists them."
            )
        raise LoadError("\n".join(lines), tuple(failures))
    assert buffer is not None  # Without a reason there is a result.
    if failures:
        buffer._set_failures(tuple(failures))  # noqa: SLF001
    return buffer
