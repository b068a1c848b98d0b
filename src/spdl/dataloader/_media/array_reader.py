"""Reads the arrays of a batch of files, or of rows of large arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from spdl._check import show
from spdl.dataloader._media.array_files import ACCEPTED, kind_of, load_array_files
from spdl.dataloader._media.batch import LabelledBatch
from spdl.dataloader._media.columns import check_names, shapes_of
from spdl.dataloader._media.media_reader import MediaReader
from spdl.io import FormatError, LoadError, LoadFailure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ArrayReader"]


class ArrayReader(MediaReader):
    """Reads npz files with the same members, npy files of the same shape, or rows.

    Args:
        data: The array that batches unpack first, which an npy file is.
        label: The array with the labels; None if there is none.
    """

    media: ClassVar[str] = "files"
    batch_type: ClassVar[type[LabelledBatch]] = LabelledBatch
    column: ClassVar[str] = "file"

    def __init__(self, data: str, label: str | None) -> None:
        self._data = data
        self._label = label

    def find_fault(self, columns: Mapping[str, list[Any]], place: int) -> str | None:
        """Return why a sample's file is none; None if it is one."""
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
        """Load the files in the column ``file``."""
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
                    f"the files have an array {field!r} besides {name!r}, and a batch has one field `{field}`: pass "
                    f"{field}={field!r}; {name!r} is then a field of its own name"
                )
        fields = {names.get(name, name): array for name, array in arrays.items()}
        if "label" in fields:
            fields["label"] = _to_labels(fields["label"])
        return fields


def _to_labels(labels: Any) -> Any:
    """Return whole numbers as int64, as labels have it and losses want it, and others as they are."""
    import numpy as np  # noqa: PLC0415 - importing spdl.dataloader loads no numpy.

    whole = labels.ndim == 1 and np.can_cast(labels.dtype, np.int64)
    return labels.astype(np.int64) if whole else labels
