"""From the positions of rows to a batch of columns: take, look for nulls, replace what failed, convert."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spdl._processes import RenewedLock
from spdl.dataloader._loader.batches import TableBatch
from spdl.dataloader._loader.failures import SampleFailure, describe_failures, transform_batch
from spdl.dataloader._loader.sample_loader import Maker
from spdl.dataloader._loader.tensors import all_to_torch
from spdl.dataloader._table.columns import Codes, Column, Nulls, Packing
from spdl.io import LoadError
from spdl.source._shared import Defect, is_defect, name_of, open_columns

if TYPE_CHECKING:
    from spdl.dataloader._loader.epoch_iterator import EpochStep
    from spdl.source import EpochOrder, ParquetFiles

# Row groups of rows that come this many batches later are decoded now, and by half of that they are ready.
_AHEAD = 32
# How many earlier batches other threads may still be making.
_BEHIND = 8
# So many of their places are looked at, and so many that follow each other where a row group is not here.
_SAMPLED = 256
_LOOKED_AT = 2048
_REMEDY = (
    'If nulls are the reason, pass nulls="mask", or fill_null={column: value}, which alone fills those in lists. Pass '
    'on_error="skip" to leave such rows out, or "refill" to put others in their place; `failures` then lists them.'
)


class TableMaker(Maker):
    """Makes batches of columns, of which the `masked` get a mask. The user's own order may leave out rows."""

    media = called = "rows"
    otherwise = (
        "At most four batches are made at once. Read fewer columns, or raise `cache_bytes` if not all row groups fit."
    )
    in_place_of_processes = "Only `batch_transform` runs Python code: have it do less, or do it in the training loop."

    def __init__(
        self,
        files: ParquetFiles,
        columns: Sequence[Column],
        masked: set[str],
        *,
        order: EpochOrder,
        has_own_order: bool,
        nulls: Nulls,
        cache_bytes: int,
        **others: Any,
    ) -> None:
        super().__init__(order if has_own_order else len(files), **others)
        self._files = files
        self._columns = list(columns)
        self._packing = Packing(columns)
        self._masked = masked
        self._order = order
        self._nulls = nulls
        self._cache_bytes = cache_bytes
        self._lock = RenewedLock()
        self._opened: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def make(self, step: EpochStep, epoch: int, num_threads: int) -> tuple[Any, tuple[SampleFailure, ...]]:  # noqa: ARG002 - of the base.
        indices = step.indices
        table, reasons = self._read(indices, step, epoch)
        failed = self._note(indices, reasons, epoch)
        failures = list(failed.values())
        if failures and self._on_error == "raise":
            raise LoadError(describe_failures(failures, len(indices), self.media, _REMEDY))
        if failures and self._on_error == "refill":
            indices = indices.copy()

            def retry(draws: dict[int, int]) -> dict[int, SampleFailure]:
                nonlocal table
                for place, index in draws.items():
                    indices[place] = index
                table, left = self._read(indices, step, epoch)
                return self._note(indices, left, epoch)

            failures = self._replace(step, epoch, failed, retry)
        elif failures:
            indices = np.delete(indices, list(reasons))
            if not indices.size:
                return None, tuple(failures)
        self._prepare(step, epoch)
        return self._assemble(table, indices, failures, epoch), tuple(failures)

    def _tables(self) -> Any:
        with self._lock:
            if self._opened is None:
                codes = [column.name for column in self._columns if isinstance(column, Codes)]
                self._opened = open_columns(self._files, codes, self._keep, self._cache_bytes, self._packing.make_room)
            return self._opened

    def _keep(self, table: Any, room: Any) -> Any:
        prepared = {}
        for column in self._columns:
            found = table.column(column.name)
            # A table without rows may have no chunk to take the type from.
            chunks = [column.prepare(chunk) for chunk in found.chunks or [pa.array([], found.type)]]
            prepared[column.name] = _piece(pa.chunked_array(chunks))
        return self._packing.pack(prepared, len(table), room)

    def _read(self, indices: NDArray[np.int64], step: EpochStep, epoch: int) -> tuple[Any, dict[int, str]]:
        """Return the rows that can be had as a table, and why others cannot, by their places."""
        found = self._tables().read(indices, lambda: self._following(epoch, step.end))
        reasons: dict[int, str] = {}
        for places, error in found.errors:
            if not is_defect(error):
                raise error
            reasons.update(dict.fromkeys(places.tolist(), Defect.of(error).reason))
        if found.table is None:
            return None, reasons
        faults = self._find_nulls(found.table)
        if faults:
            kept = np.delete(np.arange(len(found.table)), list(faults))
            places = np.arange(len(indices)) if found.places is None else found.places
            reasons.update({int(places[row]): reason for row, reason in faults.items()})
            return found.table.take(pa.array(kept)), dict(sorted(reasons.items()))
        return found.table, dict(sorted(reasons.items()))

    def _find_nulls(self, table: Any) -> dict[int, str]:
        faults: dict[int, str] = {}
        kept = {name: _piece(table.column(name)) for name in table.column_names}
        nulls = self._packing.find_nulls(kept) if self._nulls == "error" else {}
        for column in self._columns:
            if column.name in kept and (inner := column.inner_nulls(kept[column.name])).size:
                faults |= dict.fromkeys(inner.tolist(), f"there is a null in the list of the column {column.name!r}")
            if column.name in nulls:
                text = "" if not isinstance(column, Codes) else ", or not in its dictionary"
                rows = np.flatnonzero(nulls[column.name]).tolist()
                faults |= dict.fromkeys(rows, f"the column {column.name!r} is null{text}")
        return faults

    def _note(self, indices: NDArray[np.int64], reasons: dict[int, str], epoch: int) -> dict[int, SampleFailure]:
        found = ((place, int(indices[place]), reason) for place, reason in reasons.items())
        return {
            place: SampleFailure(epoch, index, name_of(self._files, index), reason) for place, index, reason in found
        }

    def _prepare(self, step: EpochStep, epoch: int) -> None:
        if self._tables().has_all():
            return
        begin = int(step.positions[0])
        together = step.end - begin
        end = min(step.end + _AHEAD * together, len(self._order))
        places = np.linspace(begin, end - 1, _SAMPLED).astype(np.int64)
        before = np.linspace(max(begin - _BEHIND * together, 0), begin, _SAMPLED).astype(np.int64)
        rows = np.asarray(self._order.take(epoch, np.concatenate([before, places])), np.int64)
        self._tables().prepare(
            rows[:_SAMPLED],
            rows[_SAMPLED:],
            lambda number: self._following(epoch, int(places[number])),
            _AHEAD // 2,
        )

    def _following(self, epoch: int, place: int) -> NDArray[np.int64]:
        end = min(place + _LOOKED_AT, len(self._order))
        return np.asarray(self._order.take(epoch, np.arange(min(place, end), end)), np.int64)

    def _assemble(self, table: Any, indices: NDArray[np.int64], failures: list[SampleFailure], epoch: int) -> Any:
        kept = {name: _piece(table.column(name)) for name in table.column_names}
        packed = self._packing.unpack(kept)
        columns = {
            column.name: packed[column.name] if column.name in packed else column.to_numpy(kept[column.name])
            for column in self._columns
        }
        nulls = self._packing.find_nulls(kept) if self._masked else {}
        masks = {
            column.name: ~nulls[column.name] if column.name in nulls else np.ones(len(table), bool)
            for column in self._columns
            if column.name in self._masked
        }
        arrays: dict[str, Any] = {"columns": columns, "masks": masks, "index": indices}
        if self._output == "torch":
            arrays = all_to_torch(arrays)
        batch = TableBatch(**arrays, epoch=epoch, failures=tuple(failures))
        what = f"{len(indices)} rows, the first of which is row {indices[0]}"
        return transform_batch(self._batch_transform, batch, what)


def _piece(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
