"""Arrays of different lengths as one array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from spdl._check import check_choice, positive, refuse, refuse_masked, refuse_set

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import ArrayLike, DTypeLike, NDArray

Side: TypeAlias = Literal["right", "left"]


class Padded(NamedTuple):
    """Arrays of different lengths as one, as `pad` returns them.

    Example:
        >>> from spdl.io import pad
        >>> pad([[1, 2, 3], [4]]).lengths
        array([3, 1])
    """

    values: NDArray[Any]
    """The arrays, (B, T, ...)."""
    mask: NDArray[np.bool_]
    """False for padding, else True, bool (B, T)."""
    lengths: NDArray[np.int64]
    """The length of each array, int64 (B,)."""


class Padding(NamedTuple):
    """How to pad arrays; `pad` documents the fields."""

    value: float = 0
    multiple: int = 1
    side: Side = "right"
    dtype: DTypeLike | None = None

    def checked(self) -> Padding:
        positive("multiple", self.multiple)
        check_choice("side", self.side, get_args(Side))
        return self

    def read(self, arrays: Sequence[Any]) -> tuple[list[NDArray[Any]], np.dtype[Any]]:
        """Return arrays that can be parts of one, and its dtype."""
        refuse_set("arrays", arrays)
        found = [_to_array(each, number) for number, each in enumerate(arrays)]
        if not found:
            refuse(ValueError, "arrays", "at least one array", arrays)
        rest = found[0].shape[1:]
        for number, array in enumerate(found):
            if array.shape[1:] != rest:
                accepted = f"an array of the shape (any, {', '.join(map(str, rest))}), as the first one"
                refuse(ValueError, f"arrays[{number}]", accepted, array.shape)
        return found, self._find_dtype(found)

    def apply(self, arrays: Sequence[Any]) -> Padded:
        import numpy as np  # noqa: PLC0415 - importing spdl.io loads no numpy.

        found, dtype = self.read(arrays)
        lengths = np.array([len(array) for array in found], dtype=np.int64)
        longest = -(-int(lengths.max()) // self.multiple) * self.multiple
        values = np.full((len(found), longest, *found[0].shape[1:]), self.value, dtype)
        places = np.arange(longest)
        if self.side == "right":
            mask = places < lengths[:, None]
            for row, array in zip(values, found, strict=True):
                row[: len(array)] = array
        else:
            mask = places >= longest - lengths[:, None]
            for row, array in zip(values, found, strict=True):
                row[longest - len(array) :] = array
        return Padded(values, mask, lengths)

    def _find_dtype(self, arrays: Sequence[NDArray[Any]]) -> np.dtype[Any]:
        import numpy as np  # noqa: PLC0415

        # Of empty lists numpy makes floats.
        kinds = sorted({array.dtype for array in arrays if array.size} or {arrays[0].dtype}, key=str)
        if self.dtype is None and len(kinds) > 1:
            names = ", ".join(map(str, kinds))
            refuse(TypeError, "arrays", f"arrays of one dtype, or given a `dtype`; they have {names}", arrays)
        dtype = kinds[0] if self.dtype is None else np.dtype(self.dtype)
        for number, array in enumerate(arrays):
            if array.size and not np.can_cast(array.dtype, dtype) and not _fits(array, dtype):
                refuse(ValueError, f"arrays[{number}]", f"an array whose values {dtype} can hold", array)
        # A value for labels to ignore is often negative, and tokens are often unsigned.
        if not _fits(np.asarray(self.value), dtype):
            remedy = 'Pass dtype="int64", say.' if dtype.kind in "iu" else ""
            refuse(ValueError, "value", f"a number that {dtype}, the dtype of the arrays, can hold", self.value, remedy)
        return dtype


def _to_array(value: Any, number: int) -> NDArray[Any]:
    import numpy as np  # noqa: PLC0415

    refuse_masked(f"arrays[{number}]", value)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        refuse(TypeError, f"arrays[{number}]", "an array, or a list of numbers", value, f"NumPy says: {error}")
    if array.dtype.kind not in "biuf" or not array.ndim:
        refuse(TypeError, f"arrays[{number}]", "an array of numbers of at least one dimension", value)
    return array


def _fits(array: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    import numpy as np  # noqa: PLC0415

    if dtype.kind == "f":
        # Infinity is a value; what only becomes infinite is not held.
        numbers = array.astype(np.float64)
        return bool((np.abs(numbers[np.isfinite(numbers)]) <= np.finfo(dtype).max).all())
    if dtype.kind in "iu" and array.dtype.kind in "biu":
        bounds = np.iinfo(dtype)
        return bounds.min <= int(array.min()) and int(array.max()) <= bounds.max
    return dtype.kind == "b" and bool(np.isin(array, (0, 1)).all())


def pad(
    arrays: Sequence[ArrayLike],
    /,
    *,
    value: float = 0,
    multiple: int = 1,
    side: Side = "right",
    dtype: DTypeLike | None = None,
) -> Padded:
    """Put arrays of different lengths, such as the tokens of texts, into one array, with a mask.

    Args:
        arrays: The arrays: of one dtype, and of one shape but for the length of their first axis. Lists of numbers and
            tensors in main memory will do.
        value: The number for places without a value, such as the id of a padding token, or -100 for labels.
        multiple: The length of the result is a multiple of this: 8 or 64 for tensor cores, or more for compilers,
            which compile each shape again.
        side: Where the padding goes: ``"right"`` after the values, ``"left"`` before them, as for generating text.
        dtype: The dtype of the result, which must be able to hold all values. None is the dtype of the arrays.

    Returns:
        A named tuple of new numpy arrays: the ``values`` (B, T, ...), the boolean ``mask`` (B, T), and the ``lengths``
        (B,). T is the longest length, rounded up to a multiple.

    Raises:
        TypeError: If the arrays are not numbers, or of several dtypes.
        ValueError: If the sequence is empty, if their shapes differ, or if the dtype cannot hold the values or `value`.

    Example:
        >>> from spdl.io import pad
        >>> tokens, mask, lengths = pad([[5, 6, 7], [8]], value=1, multiple=4)
        >>> tokens.tolist()
        [[5, 6, 7, 1], [8, 1, 1, 1]]
        >>> mask.sum(axis=1).tolist() == lengths.tolist()
        True
    """
    return Padding(value, multiple, side, dtype).checked().apply(arrays)
