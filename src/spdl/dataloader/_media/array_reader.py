"""How `ArrayLoader` reads arrays: npy and npz files, rows of large arrays, and the results of the user's function."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Number
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from spdl._check import check_choice, check_instance, refuse, show
from spdl.dataloader._loader.batches import LabelledBatch
from spdl.dataloader._loader.failures import UserCode
from spdl.dataloader._loader.sample_loader import OnError
from spdl.dataloader._loader.tensors import OutputKind, all_to_torch, fits_tensors
from spdl.dataloader._media.media_loader import MediaReader
from spdl.dataloader._media.sample_fields import RaggedLayout, check_names, is_tensor, lay_out, to_array, to_objects
from spdl.dataloader._media.windows import IN_MEMORY, name_format
from spdl.io import FormatError, LoadError, LoadFailure, load_npy, load_npz_batch
from spdl.pipeline import ItemContext
from spdl.pipeline._declare.op import context_parameter
from spdl.source._shared import Defect, is_defect

_Kind: TypeAlias = Literal["npy", "npz", "row", "arrays"]

ACCEPTED = "a path or the bytes of an npz or npy file, or arrays by their names"

_NPY = b"\x93NUMPY"
_TEXTS = {"U": "str", "S": "bytes"}


def kind_of(file: Any) -> _Kind:
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


def _load_together(files: Sequence[Any], num_threads: int) -> dict[str, Any] | None:
    """Return an array (N, ...) with its own memory for each name; None if that takes a look at each file."""
    kinds = {kind_of(file) for file in files}
    if kinds == {"row"}:
        return _take_rows(files)
    if kinds == {"npz"}:
        try:
            return _to_native(load_npz_batch(files, num_threads=num_threads))
        except (OSError, FormatError):
            return None
    return None


def _take_rows(rows: Sequence[ArrayRow]) -> dict[str, Any]:
    places: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(id(row.arrays), []).append(place)
    if len(places) == 1:
        positions = np.fromiter((row.position for row in rows), np.int64, len(rows))
        taken = {name: array[positions] for name, array in rows[0].arrays.items()}
        return _to_native(taken)
    found = {
        name: np.empty((len(rows), *array.shape[1:]), _native_type(array)) for name, array in rows[0].arrays.items()
    }
    for own in places.values():
        positions = np.fromiter((rows[place].position for place in own), np.int64, len(own))
        for name, array in rows[own[0]].arrays.items():
            found[name][own] = array[positions]
    return found


def _shapes(sample: dict[str, Any]) -> dict[str, Any]:
    """Return what must be alike in all samples: of texts not their lengths, which NumPy has in the dtype."""
    return {
        name: (_TEXTS.get(array.dtype.kind) or str(_native_type(array)), array.shape)
        for name, array in sorted(sample.items())
    }


def _to_native(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: array.astype(_native_type(array), copy=False) for name, array in arrays.items()}


def _native_type(array: Any) -> Any:
    """In this machine's order of bytes, as other libraries want it."""
    return array.dtype.newbyteorder("=")


class ArrayRow(Mapping[str, Any]):
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


class ArrayReader(MediaReader):
    """Reads npz files with the same members, npy files of the same shape, rows, or what a function loads.

    `data` and `label` are names of arrays; an npy file has the first. If the data go through a transform, as
    `transforms` says, they may differ in shape until then.
    """

    media: ClassVar[str] = "files"
    batch_type: ClassVar[type[LabelledBatch]] = LabelledBatch
    column: ClassVar[str] = "file"

    def __init__(
        self,
        data: str,
        label: str | None,
        *,
        load: Callable[..., Any] | None,
        ragged: Mapping[str, RaggedLayout] | None,
        transforms: bool,
        on_error: OnError,
        output: OutputKind,
    ) -> None:
        if load is not None and not callable(load):
            refuse(TypeError, "load", "a function of a sample's `file`, or None", load)
        self._ragged = {} if ragged is None else ragged
        check_instance("ragged", self._ragged, Mapping, "layouts by names of fields, such as {'data': 'list'}")
        for name, layout in self._ragged.items():
            check_choice(f"ragged[{name!r}]", layout, get_args(RaggedLayout))
        self._data = data
        self._label = label
        self._load = load
        self._context = None if load is None else context_parameter(load)
        self._on_error = on_error
        self._tensors = output == "torch"
        own = {"data": data, "label": label}
        # By their names in files.
        self._loose = {own.get(name, name) for name in ("data", *self._ragged) if name in self._ragged or transforms}

    def find_fault(self, columns: Mapping[str, list[Any]], place: int) -> str | None:
        file = columns["file"][place]
        if self._load is not None:
            return None
        array = to_array(file)
        if array is not None and (array.ndim != 1 or array.itemsize != 1):
            return f"`file` must be {ACCEPTED}, got {show(file)}. {IN_MEMORY}"
        try:
            kind_of(file)
        except TypeError:
            return f"`file` must be {ACCEPTED}, got {show(file)}"
        return None

    def read(
        self, columns: Mapping[str, list[Any]], epoch: int, num_threads: int
    ) -> tuple[dict[str, Any], Sequence[tuple[int, str]]]:
        files, indices = columns["file"], columns["index"]
        labelled = any(label is not None for label in columns["label"])
        load = self._load
        if load is None:
            whole = _load_together(files, num_threads)
            if whole is None:
                arrays, reasons = self._read_apart(files, lambda place: self._load_one(files[place]))
            else:
                arrays, reasons = {name: self._loosen(name, array) for name, array in whole.items()}, []
        else:
            contexts = [ItemContext(epoch, -1, index) for index in indices]
            arrays, reasons = self._read_apart(files, lambda place: self._call(load, files[place], contexts[place]))
        return self._to_fields(arrays, labelled=labelled), reasons

    def _read_apart(
        self, files: list[Any], read: Callable[[int], dict[str, Any]]
    ) -> tuple[dict[str, Any], list[tuple[int, str]]]:
        """Read files one by one, and find out which fail. So does one whose arrays are not those of most."""
        sound: dict[int, dict[str, Any]] = {}
        kinds: dict[int, dict[str, Any]] = {}
        reasons = []
        for place in range(len(files)):
            try:
                arrays = read(place)
            except (OSError, FormatError, _LoadFailed) as error:
                reasons.append((place, str(error)))
                continue
            sound[place] = arrays
            shapes = _shapes(arrays).items()
            kinds[place] = {name: ("any", ()) if name in self._loose else shape for name, shape in shapes}
        if not sound:
            failures = tuple(LoadFailure(place, files[place], reason) for place, reason in reasons)
            raise LoadError("no file could be loaded", failures)
        ((most, _),) = Counter(frozenset(own.items()) for own in kinds.values()).most_common(1)
        for place, own in kinds.items():
            if own.items() != most:
                del sound[place]
                reasons.append((place, f"its arrays are {own}, those of most others in the batch {dict(sorted(most))}"))
        whole = {}
        for name, array in next(iter(sound.values())).items():
            shape, dtype = ((), object) if self._is_loose(name, array) else (array.shape, _native_type(array))
            whole[name] = np.zeros((len(files), *shape), dtype)
            for place, arrays in sound.items():
                whole[name][place] = arrays[name]
        return whole, sorted(reasons)

    def _load_one(self, file: Any) -> dict[str, Any]:
        kind = kind_of(file)
        if kind == "npz":
            try:
                return {name: array[0] for name, array in load_npz_batch([file]).items()}
            except FormatError as error:
                if (found := name_format(file)) is None:
                    raise
                raise FormatError(f"it is {found[0]}, not an npz or npy file: {found[1]} loads it") from error
        given = {self._data: load_npy(file)} if kind == "npy" else file
        arrays = {str(name): to_array(value, str(name)) for name, value in given.items()}
        for name, array in arrays.items():
            if array is None or array.dtype.hasobject:
                raise FormatError(f"{name!r} is not an array of numbers: {type(given[name]).__name__}")
            if name in self._loose:
                # All others are copied into an array of the batch.
                arrays[name] = array.astype(_native_type(array))
        return arrays

    def _is_loose(self, name: str, array: Any) -> bool:
        """Return whether the array may differ in the samples of a batch, which texts do in length."""
        return name in self._loose or array.dtype.kind in _TEXTS

    def _loosen(self, name: str, array: Any) -> Any:
        return to_objects([array[place, ...] for place in range(len(array))]) if self._is_loose(name, array) else array

    def _call(self, load: Callable[..., Any], file: Any, context: ItemContext) -> dict[str, Any]:
        """Return the arrays that the function loads, or raise `_LoadFailed` for a sample to leave out or replace."""
        doing = f"calling `load` for sample {context.index}, {show(file)}"
        try:
            with UserCode(doing):
                loaded = load(file, **({self._context: context} if self._context else {}))
        except Exception as error:
            if self._on_error == "raise" or not is_defect(error):
                raise
            raise _LoadFailed(Defect.of(error).reason) from None
        with UserCode(doing):
            return self._to_arrays(loaded)

    def _to_arrays(self, loaded: Any) -> dict[str, Any]:
        named = loaded if isinstance(loaded, Mapping) else {self._data: loaded}
        arrays = {}
        for name, value in named.items():
            array = np.asarray(value) if isinstance(value, Number) else to_array(value, str(name))
            if array is None or array.dtype.hasobject or (self._tensors and not fits_tensors(array.dtype)):
                found = f"{array.dtype} {array.shape}" if array is not None else type(value).__name__
                remedy = "numpy.asarray() reads a lazy one"
                if array is None and is_tensor(value):
                    found += f" of {value.dtype}"
                    remedy = "tensor.float() makes one of a type that NumPy has"
                raise TypeError(
                    f"`load` returned {found} for {name!r}: it must return an array or a tensor of "
                    f"numbers, or a mapping from names to these; {remedy}"
                )
            # PyTorch warns of memory that it may not write to.
            arrays[str(name)] = np.require(array, _native_type(array), "W")
        return arrays

    def convert(
        self,
        results: list[Any],
        fields: dict[str, Any],  # noqa: ARG002 - of the base.
        names: Sequence[str],
        num_threads: int,  # noqa: ARG002
        *,
        alone: bool,
    ) -> Any:
        if "data" in self._ragged:
            if not alone:
                refuse(
                    TypeError, "transform", "a function that returns an array, since `ragged` has its layout", results
                )
            return results
        arrays = [to_array(result) for result in results]
        kinds = [None if array is None else (str(array.dtype), array.shape) for array in arrays]
        for kind, name in zip(kinds, names, strict=True):
            if kind != kinds[0]:
                raise ValueError(
                    f"`transform` returned {_show_kind(kind)} for {name}, and {_show_kind(kinds[0])} for {names[0]}: "
                    "have it make them alike, or choose a layout for different ones: ragged={'data': 'list'}, 'pad' or "
                    "'offsets'"
                )
        return results

    def finish(self, fields: dict[str, Any], epoch: int) -> dict[str, Any]:  # noqa: ARG002 - of the base.
        done = {name: each if name in self._ragged else _join_texts(each) for name, each in fields.items()}
        for name, layout in self._ragged.items():
            if fields.get(name) is None:
                refuse(ValueError, "ragged", f"names of fields of the batch: {', '.join(map(repr, fields))}", name)
            rows = [to_array(each) for each in fields[name]]
            if any(each is None for each in rows):
                refuse(TypeError, "ragged", f"names of fields that are arrays, and {name!r} has others", fields[name])
            indices = fields["index"].tolist()
            with UserCode(f"bringing the arrays {name!r} of the samples {show(indices)} together"):
                laid = lay_out(name, rows, layout, fields)
            done |= all_to_torch(laid) if self._tensors else laid
        return done

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
            labels = fields["label"]
            if labels.ndim == 1 and np.can_cast(labels.dtype, np.int64):  # As losses want them.
                fields["label"] = labels.astype(np.int64)
        return fields


def _join_texts(field: Any) -> Any:
    """Return one array of the texts of a batch, as long as the longest. Everything else stays."""
    if not (isinstance(field, np.ndarray) and field.dtype == object and field.size):
        return field
    rows = [to_array(each) for each in field]
    first = rows[0]
    alike = first is not None and first.dtype.kind in _TEXTS
    alike = alike and all(each is not None and each.shape == first.shape for each in rows)
    return np.stack(rows) if alike else field


class _LoadFailed(Exception):  # noqa: N818 - a situation, not an error.
    """A sample could not be loaded by the user's function, for the reason that it says."""


def _show_kind(kind: tuple[str, tuple[int, ...]] | None) -> str:
    return "no array" if kind is None else f"{kind[0]} {kind[1]}"
