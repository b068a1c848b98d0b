"""A ready-made loader of labelled arrays: whole files, or rows of large ones."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, overload

from spdl._check import check_iterable, check_str, refuse, show
from spdl.dataloader._loader.labelled_batch import LabelledBatch
from spdl.dataloader._loader.sample_loader import OnError
from spdl.dataloader._loader.tensors import OutputKind
from spdl.dataloader._media.batch_maker import check_names, shapes_of, to_array
from spdl.dataloader._media.media_loader import MediaLoader, MediaReader
from spdl.io import FormatError, LoadError, LoadFailure, load_npy, load_npz, load_npz_batch
from spdl.source import ArraySample, EpochOrder
from spdl.source._shared import fingerprint

if TYPE_CHECKING:
    import numpy as np


_Kind: TypeAlias = Literal["npy", "npz", "row", "arrays"]

ACCEPTED = "a path or the bytes of an npz or npy file, or arrays by their names"

_NPY = b"\x93NUMPY"


def load_array_files(files: Sequence[Any], data: str, num_threads: int) -> dict[str, Any]:
    """Return an array (N, ...) with its own memory for each name.

    Args:
        files: Paths or bytes of npz or npy files, rows, or arrays by their names.
        data: The name for the array of an npy file.
        num_threads: How many threads may share the work.

    Raises:
        FormatError: If a file is damaged, or differs from another in names, dtypes or shapes.
        OSError: If a file cannot be mapped.
        TypeError: If a file is anything else.
    """
    kinds = {kind_of(file) for file in files}
    if kinds == {"npz"}:
        return load_npz_batch(files, num_threads=num_threads)
    if kinds == {"row"}:
        return _take_rows(files)
    return _stack([_load_one(file, data) for file in files])


def kind_of(file: Any) -> _Kind:
    """Return what a file is.

    Raises:
        TypeError: If it is anything else.
    """
    if isinstance(file, ArrayRow):
        return "row"
    if isinstance(file, Mapping):
        return "arrays"
    if isinstance(file, str | os.PathLike):
        return "npy" if os.fsdecode(file).lower().endswith(".npy") else "npz"
    try:
        return "npy" if bytes(memoryview(file).cast("B")[: len(_NPY)]) == _NPY else "npz"
    except TypeError:
        refuse(TypeError, "file", ACCEPTED, file)


def _load_one(file: Any, data: str) -> dict[str, Any]:
    kind = kind_of(file)
    if kind == "npy":
        return {data: load_npy(file)}
    if kind == "npz":
        return {name: array[0] for name, array in load_npz_batch([file]).items()}
    arrays = {str(name): to_array(value) for name, value in file.items()}
    for name, array in arrays.items():
        if array is None or array.dtype.hasobject:
            raise FormatError(f"{name!r} is not an array of numbers: {type(file[name]).__name__}")
    return arrays


def _take_rows(rows: Sequence[ArrayRow]) -> dict[str, Any]:
    import numpy as np  # noqa: PLC0415 - importing spdl.dataloader loads no numpy.

    places: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(id(row.arrays), []).append(place)
    if len(places) == 1:
        positions = np.fromiter((row.position for row in rows), np.int64, len(rows))
        return {name: _native(array[positions]) for name, array in rows[0].arrays.items()}
    found = {
        name: np.empty((len(rows), *array.shape[1:]), _native_type(array)) for name, array in rows[0].arrays.items()
    }
    for own in places.values():
        positions = np.fromiter((rows[place].position for place in own), np.int64, len(own))
        for name, array in rows[own[0]].arrays.items():
            found[name][own] = array[positions]
    return found


def _stack(samples: list[dict[str, Any]]) -> dict[str, Any]:
    import numpy as np  # noqa: PLC0415

    first = _shapes(samples[0])
    for sample in samples:
        if _shapes(sample) != first:
            raise FormatError(f"the arrays differ: {_shapes(sample)} and {first}")
    found = {name: np.empty((len(samples), *array.shape), _native_type(array)) for name, array in samples[0].items()}
    for place, sample in enumerate(samples):
        for name, array in sample.items():
            found[name][place] = array
    return found


def _shapes(sample: dict[str, Any]) -> dict[str, Any]:
    return {name: (str(_native_type(array)), array.shape) for name, array in sorted(sample.items())}


def _native_type(array: Any) -> Any:
    """Return the dtype in this machine's order of bytes, as other libraries want it."""
    return array.dtype.newbyteorder("=")


def _native(array: Any) -> Any:
    return array.astype(_native_type(array), copy=False)


Table: TypeAlias = str | os.PathLike[str] | bytes | Mapping[str, Any]

_ACCEPTED = "an npz file (a path or bytes), arrays by their names, or a list of these"


class ArrayRow(Mapping[str, Any]):
    """A row of some arrays: a view of each by its name.

    Args:
        arrays: The arrays, which have equally many rows.
        position: The number of the row.
    """

    __slots__ = ("arrays", "position")

    def __init__(self, arrays: Mapping[str, Any], position: int) -> None:
        self.arrays = arrays
        self.position = position

    def __getitem__(self, name: str) -> Any:
        return self.arrays[name][self.position]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def __repr__(self) -> str:
        return f"row {self.position} of {', '.join(self.arrays)}"


class _LoadedTable(NamedTuple):
    """One of the tables, and how messages call it."""

    name: str
    arrays: dict[str, np.ndarray[Any, Any]]


class ArrayRows(Sequence[ArraySample]):
    """The samples of npz files that hold many each, such as ``mnist.npz``: a sample is a row of every array.

    It is a sequence of `spdl.source.ArraySample` records, and a source of `ArrayLoader`, whose `data` and `label` say
    which array is which. A batch is gathered from the arrays by one operation for each. The arrays of an uncompressed
    file are views of the mapped file, which is read only where rows are asked for. Arrays of a compressed file are
    inflated and kept in memory.

    Args:
        files: An npz file, as a path or as bytes; or arrays by their names, such as what ``numpy.load`` returns or
            ``{"image": spdl.io.load_npy("images.npy")}``; or a list of these, whose rows follow each other.
        names: The names of the arrays to take. None takes all, which must then have equally many rows.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If there is no row, an array is missing or has no rows, the arrays of a file have not equally many,
            or files differ in names, dtypes or shapes of rows.
        FormatError: If a file is damaged or truncated.
        OSError: If one cannot be mapped.

    Example:
        >>> import io
        >>> import numpy as np
        >>> from spdl.dataloader import ArrayLoader, ArrayRows
        >>> from spdl.io import save_npz
        >>> file = io.BytesIO()
        >>> save_npz(file, {"x": np.arange(12).reshape(3, 2, 2), "y": np.array([0, 1, 0])})
        >>> rows = ArrayRows(file.getvalue())
        >>> for data, labels in ArrayLoader(rows, 2, data="x", label="y", output="numpy"):
        ...     print(data.shape, labels)
        (2, 2, 2) [0 1]
        (1, 2, 2) [0]
    """

    def __init__(self, files: Table | Iterable[Table], *, names: Iterable[str] | None = None) -> None:
        self._files: list[Any] = _to_list(files)
        self._names = _to_names(names)
        self._parts = self._load()
        # Other objects with arrays by their names, such as an open file, cannot be pickled.
        self._files = [
            part.arrays if isinstance(file, Mapping) else file
            for file, part in zip(self._files, self._parts, strict=True)
        ]
        sizes = (len(next(iter(part.arrays.values()))) for part in self._parts)
        self._starts = list(accumulate(sizes, initial=0))
        if not self._starts[-1]:
            refuse(ValueError, "files", "arrays with rows", files)

    def fingerprint(self) -> str:
        """Return a short text that identifies the rows, their arrays and their order, wherever the files are."""

        def describe(index: int) -> str:
            part, position = self._locate(index)
            return f"{os.path.basename(self._parts[part].name)}[{position}]"  # noqa: PTH119 - a name of any kind.

        return fingerprint("ArrayRows", len(self), describe, [str(shapes_of(self._parts[0].arrays))])

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, index: int) -> ArraySample: ...
    @overload
    def __getitem__(self, index: slice) -> list[ArraySample]: ...
    def __getitem__(self, index: int | slice) -> ArraySample | list[ArraySample]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = index if index >= 0 else index + len(self)
        if not 0 <= position < len(self):
            raise IndexError(f"there are {len(self)} rows, got the index {index}")
        number, row = self._locate(position)
        part = self._parts[number]
        return ArraySample(ArrayRow(part.arrays, row), None, f"{part.name}[{row}]", position)

    def __getstate__(self) -> dict[str, Any]:
        # Files are mapped again; a user's arrays are copied once.
        return {**self.__dict__, "_parts": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._parts = self._load()

    def __repr__(self) -> str:
        return f"ArrayRows: {len(self)} rows of {', '.join(self._parts[0].arrays)}"

    def _locate(self, position: int) -> tuple[int, int]:
        part = bisect_right(self._starts, position) - 1
        return part, position - self._starts[part]

    def _load(self) -> list[_LoadedTable]:
        parts = [_read(number, file, self._names) for number, file in enumerate(self._files)]
        first = parts[0]
        for part in parts[1:]:
            if shapes_of(part.arrays) != shapes_of(first.arrays):
                accepted = f"files whose rows are alike: those of {first.name} are {shapes_of(first.arrays)}"
                refuse(ValueError, "files", accepted, f"{part.name}: {shapes_of(part.arrays)}")
        return parts


def _to_list(files: Any) -> list[Any]:
    if isinstance(files, str | bytes | os.PathLike | Mapping):
        return [files]
    check_iterable("files", files, _ACCEPTED)
    found = list(files)
    if not found:
        refuse(ValueError, "files", "at least one file", files)
    for number, file in enumerate(found):
        if not isinstance(file, str | bytes | os.PathLike | Mapping):
            refuse(TypeError, f"files[{number}]", "an npz file (a path or bytes), or arrays by their names", file)
    return found


def _to_names(names: Any) -> list[str] | None:
    if names is None:
        return None
    accepted = "a list of names of arrays, or None"
    if isinstance(names, str | bytes):
        refuse(TypeError, "names", accepted, names)
    check_iterable("names", names, accepted)
    found = list(names)
    if not found or not all(isinstance(name, str) for name in found):
        refuse(ValueError if not found else TypeError, "names", accepted, names)
    return found


def _read(number: int, file: Any, names: list[str] | None) -> _LoadedTable:
    name = os.fsdecode(file) if isinstance(file, str | os.PathLike) else f"files[{number}]"
    given: Mapping[str, Any] = file if isinstance(file, Mapping) else load_npz(file)
    wanted = list(given) if names is None else names
    if missing := [each for each in wanted if each not in given]:
        refuse(ValueError, "names", f"names of arrays of {name}, such as {', '.join(map(repr, given))}", missing)
    arrays = {}
    for each in wanted:
        array = to_array(given[each])
        if array is None or not array.ndim or array.dtype.hasobject:
            refuse(ValueError, "files", "arrays with a row for each sample", f"{each!r} of {name}", _REMEDY)
        arrays[each] = array
    counts = {each: len(array) for each, array in arrays.items()}
    if len(set(counts.values())) > 1:
        refuse(ValueError, "files", "arrays with equally many rows", f"{counts} in {name}", _REMEDY)
    if not arrays:
        refuse(ValueError, "files", "files with arrays", name)
    return _LoadedTable(name, arrays)


_REMEDY = "`names` says which arrays to take."


class ArrayReader(MediaReader):
    """Reads npz files with the same members, npy files of the same shape, or rows.

    Args:
        data: The array that batches unpack first, which an npy file is.
        label: The array with the labels; None if there are no labels.
    """

    media: ClassVar[str] = "files"
    batch_type: ClassVar[type[LabelledBatch]] = LabelledBatch
    column: ClassVar[str] = "file"

    def __init__(self, data: str, label: str | None) -> None:
        self._data = data
        self._label = label

    def find_fault(self, columns: Mapping[str, list[Any]], place: int) -> str | None:
        """Return why a sample's file cannot be read; None if it can."""
        file = columns["file"][place]
        try:
            kind_of(file)
        except TypeError:
            return f"`file` must be {ACCEPTED}, got {show(file)}"
        return None

    def read(
        self,
        columns: Mapping[str, list[Any]],
        epoch: int,  # noqa: ARG002 - of the base.
        num_threads: int,
    ) -> tuple[dict[str, Any], Sequence[tuple[int, str]]]:
        files = columns["file"]
        labelled = any(label is not None for label in columns["label"])
        try:
            return self._to_fields(load_array_files(files, self._data, num_threads), labelled=labelled), []
        except (OSError, FormatError):
            return self._read_one_by_one(files, labelled=labelled)

    def _read_one_by_one(self, files: list[Any], *, labelled: bool) -> tuple[dict[str, Any], list[tuple[int, str]]]:
        """Find out which files fail. A file that differs from the first sound one fails too."""
        import numpy as np  # noqa: PLC0415 - only where files fail.

        sound: dict[int, dict[str, Any]] = {}
        reasons = []
        for place, file in enumerate(files):
            try:
                arrays = load_array_files([file], self._data, 1)
            except (OSError, FormatError) as error:
                reasons.append((place, str(error)))
                continue
            first = next(iter(sound.values()), arrays)
            if shapes_of(arrays) != shapes_of(first):
                reasons.append((place, f"its arrays are {shapes_of(arrays)}, those of others {shapes_of(first)}"))
                continue
            sound[place] = arrays
        if not sound:
            failures = tuple(LoadFailure(place, files[place], reason) for place, reason in reasons)
            raise LoadError("no file could be loaded", failures)
        model = next(iter(sound.values()))
        whole = {name: np.zeros((len(files), *it.shape[1:]), it.dtype) for name, it in model.items()}
        for place, arrays in sound.items():
            for name, array in arrays.items():
                whole[name][place] = array[0]
        return self._to_fields(whole, labelled=labelled), reasons

    def _to_fields(self, arrays: dict[str, Any], *, labelled: bool) -> dict[str, Any]:
        for name, is_there in ((self._data, False), (self._label, labelled)):
            # Labels may also be the samples' own.
            if name is not None and name not in arrays and not is_there:
                found = ", ".join(map(repr, arrays))
                raise KeyError(f"the files have no array {name!r}: they have {found}; see `data` and `label`")
        check_names("some arrays of the files", arrays.keys() - {self._data, self._label}, "path", "index")
        names = {self._data: "data", self._label: "label"}
        for name, field in names.items():
            if name not in (None, field) and field in arrays:
                raise ValueError(
                    f"the files have an array {field!r} as well as {name!r}, and a batch has one field `{field}`: pass "
                    f"{field}={field!r}; {name!r} is then a separate field"
                )
        fields = {names.get(name, name): array for name, array in arrays.items()}
        if "label" in fields:
            fields["label"] = _to_labels(fields["label"])
        return fields


def _to_labels(labels: Any) -> Any:
    """Return whole numbers as int64, as labels have it and losses want it, and other labels unchanged."""
    import numpy as np  # noqa: PLC0415 - importing spdl.dataloader loads no numpy.

    whole = labels.ndim == 1 and np.can_cast(labels.dtype, np.int64)
    return labels.astype(np.int64) if whole else labels


class ArrayLoader(MediaLoader[LabelledBatch]):
    """A loader of npz and npy files, or of the rows of large arrays: shuffled, shared among ranks, in batches.

    It works as `ImageLoader` does, but on arrays: order, ranks, failures, state and everything else that is not said
    here is the same. A batch is a `LabelledBatch`: it unpacks as ``data, label``, and all other arrays of the files are
    fields by their names. One native call copies or inflates the arrays of all npz files of a batch into their rows,
    without the GIL.

    Args:
        source: The samples: an `spdl.source.ArrayFolder`, `ArrayRows`, or a sequence of paths or bytes of npz or npy
            files, of pairs (file, label), or of records with a field ``file``. All have the same names, shapes and
            dtypes. In place of a file there may be arrays by their names.
        batch_size: The samples of a batch of one rank.
        data: The name of the array that a batch unpacks first. The array of an npy file is taken to have it.
        label: The name of the array with the labels. If files have none, the samples' labels are used. None
            always takes these. Labels that are whole numbers become int64.
        shuffle: Whether each epoch has its own order.
        order: Your own order instead: an `spdl.source.EpochOrder`. Its length is the length of an epoch, and it may
            take some samples more often than others.
        seed: The seed of the order and of all random numbers, from 0 to 2**64 - 1.
        drop_last: Whether to leave out the samples at the end of an epoch that fill no batch on all ranks. If not, the
            ranks share them evenly, and if there are fewer than ranks, some get the same sample.
        even_batches: Whether some do, so that all ranks take equally many steps. False is for validation; see
            `ImageLoader`.
        transform: Applied to the data of each sample of a batch, a tensor or array as the loop would get it: nothing
            changes its result, neither values nor dtype. If it has a parameter that is
            annotated with `spdl.pipeline.ItemContext`, it also gets that; its ``key(seed)`` is the seed to take for
            random numbers.
        batch_transform: Applied to each batch after that. The loop gets its result.
        output: ``"torch"`` makes tensors, ``"numpy"`` arrays.
        device: The device for the loop's tensors, such as ``"cuda"``: this process's GPU. None leaves them in main
            memory.
        on_error: How to treat files that cannot be loaded, or differ from others: ``"raise"``, ``"skip"`` or
            ``"refill"``; see `ImageLoader`.
        rank: This process's rank, with `world_size`. None asks torch.distributed, then the environment.
        world_size: The number of ranks.
        num_threads: How many threads load. None takes the cores that this process may use, bounded by its control
            groups, and divided by ``LOCAL_WORLD_SIZE``. Up to four batches are made at once; threads beyond four share
            the arrays of each batch. Look-ups in `source`, `transform` and `batch_transform`
            do not gain from these: they run in one thread for each batch.
        prefetch: How many finished batches wait for the loop. Up to four more are being made, and a greater number does
            not change that: it evens out batches that take unequally long.
        timeout: Seconds to wait for a batch before TimeoutError, above 0. None waits as long as it takes.

    Attributes:
        dataset: The source.
        batch_size: The samples of a batch.
        drop_last: Whether the rest is left out.

    Raises:
        ImportError: If a device is given and PyTorch is not installed; without a device, when the first batch is read.
        TypeError, ValueError: If an argument is not as described, or nothing would be loaded; the message names it.

    Example:
        >>> import io
        >>> import numpy as np
        >>> from spdl.dataloader import ArrayLoader
        >>> from spdl.io import save_npz
        >>> files = []
        >>> for number in range(3):
        ...     file = io.BytesIO()
        ...     save_npz(file, {"image": np.full((2, 2), number), "label": np.array(number)})
        ...     files.append(file.getvalue())
        >>> for data, labels in ArrayLoader(files, 2, output="numpy"):
        ...     print(data.shape, labels)
        (2, 2, 2) [0 1]
        (1, 2, 2) [2]
    """

    def __init__(
        self,
        source: Sequence[Any],
        batch_size: int,
        *,
        data: str = "image",
        label: str | None = "label",
        shuffle: bool = False,
        order: EpochOrder | None = None,
        seed: int = 0,
        drop_last: bool = False,
        even_batches: bool = True,
        transform: Callable[..., Any] | None = None,
        batch_transform: Callable[[LabelledBatch], Any] | None = None,
        output: OutputKind = "torch",
        device: Any = None,
        on_error: OnError = "raise",
        rank: int | None = None,
        world_size: int | None = None,
        num_threads: int | None = None,
        prefetch: int = 2,
        timeout: float | None = None,
    ) -> None:
        reader = ArrayReader(check_str("data", data), None if label is None else check_str("label", label))
        super().__init__(
            source,
            batch_size,
            reader,
            shuffle=shuffle,
            order=order,
            seed=seed,
            drop_last=drop_last,
            even_batches=even_batches,
            rank=rank,
            world_size=world_size,
            on_error=on_error,
            transform=transform,
            batch_transform=batch_transform,
            output=output,
            device=device,
            num_threads=num_threads,
            prefetch=prefetch,
            timeout=timeout,
        )
