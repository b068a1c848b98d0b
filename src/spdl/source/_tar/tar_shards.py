"""The samples of tar archives, by their positions."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from spdl._check import check_path, refuse
from spdl.source._records.place import find_places
from spdl.source._records.read_ahead import read_together
from spdl.source._records.records import Records
from spdl.source._samplers.part import find_part
from spdl.source._tar.tar_shard import TarShard
from spdl.source._tar.wids_index import read_wids_index

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from spdl.io import TarSample
    from spdl.store import Store

__all__ = ["TarShards"]

_AHEAD = 4


class TarShards(Records[dict[str, Any]]):
    """The samples of tar archives: in any order, from this machine or a store, without unpacking.

    Files in an archive that follow each other and have the same name up to the first dot are one sample, as in
    WebDataset: of ``a/b.c/00012.cls.jpg`` the key is ``a/b.c/00012`` and the part ``cls.jpg``. A record is a dict of
    the contents of the parts by their names, with the key as ``"__key__"``. Contents are read-only views.

    Where the samples lie is found by the headers of the archives alone, once: for a file the index is kept beside it
    (`spdl.io.tar_index`), for an object of a store in a cache folder. Files are mapped into memory. Of an object, a
    sample is one range, so `__getitems__` reads a batch in one call for each archive, of all archives at once.

    Args:
        shards: The archives in the order of their samples: paths or patterns such as ``train-{0000..0099}.tar``, which
            are written out as a shell does it. Or one list of shards that wids has written, a path that ends in
            ``.json``: then an archive is opened when a sample of it is asked for. Archives must not be compressed.
        store: Where the archives are, if not on this machine; paths are those of the store.
        index: The index files of the archives, if there are some in the format of DALI 1.2: paths or patterns, one for
            each archive. None finds the samples.
        cache: The folder that keeps where the samples of objects are, which ranks and later runs share. None is a
            folder in the user's cache.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If there are no samples, or not as many index files as archives.
        FormatError: If an archive is compressed, damaged or truncated, or has a sparse file, a sample has a part twice,
            or an index is damaged or does not belong to its archive; some of these when a sample is read.
        OSError: If an archive cannot be read.

    Example:
        >>> import io, tarfile, tempfile
        >>> from pathlib import Path
        >>> from spdl.source import TarShards
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for shard in range(2):
        ...         with tarfile.open(Path(folder, f"train-{shard}.tar"), "w") as archive:
        ...             for name, content in (("1.jpg", b"..."), ("1.cls", b"7"), ("2.jpg", b"...")):
        ...                 member = tarfile.TarInfo(f"{shard}/{name}")
        ...                 member.size = len(content)
        ...                 archive.addfile(member, io.BytesIO(content))
        ...     samples = TarShards(f"{folder}/train-{{0..1}}.tar")
        ...     sample = samples[2]
        >>> len(samples), list(sample), bytes(sample["cls"])
        (4, ['__key__', 'jpg', 'cls'], b'7')
    """

    def __init__(
        self,
        shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        store: Store | None = None,
        index: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        if cache is not None:
            check_path("cache", cache)
        places = find_places("shards", shards, store)
        counts: list[int | None] = [None] * len(places)
        if len(places) == 1 and places[0].path.endswith(".json"):
            listed = read_wids_index(places[0])
            places, counts = [place for place, _ in listed], [count for _, count in listed]
        indices = [None] * len(places) if index is None else find_places("index", index, store)
        if len(indices) != len(places):
            refuse(ValueError, "index", f"as many paths as there are shards, which are {len(places)}", index)
        self._use([TarShard(*each, cache) for each in zip(places, indices, counts, strict=True)])
        if not len(self):
            refuse(ValueError, "shards", "archives with samples in them", shards)

    def _use(self, shards: list[TarShard]) -> None:
        self._shards = shards
        self._starts = list(accumulate(read_together([shard.__len__ for shard in shards]), initial=0))

    @property
    def block_sizes(self) -> list[int]:
        """A new list of how many samples each archive has, without those that have none."""
        return [size for size in self._sizes() if size]

    def fingerprint(self) -> str:
        """Return a short text that says which samples in which order these are, wherever the archives are."""
        hasher = hashlib.sha256()
        for shard, size in zip(self._shards, self._sizes(), strict=True):
            hasher.update(f"{shard.place.name}\n{size}\n".encode("utf-8", "surrogateescape"))
        return f"TarShards:{len(self)}:{hasher.hexdigest()[:16]}"

    def split(
        self,
        rank: int | None = None,
        world_size: int | None = None,
        *,
        worker: int | None = None,
        num_workers: int | None = None,
    ) -> TarShards:
        """Return the samples of every n-th archive: those that one worker of one rank reads.

        No archive is read by two of them, so they need not have the same number of samples. If all ranks have to take
        equally many steps, leave the archives together and share their samples by an `EpochSampler`.

        Args:
            rank: The number of this process; with `world_size`, None asks ``torch.distributed``, then the environment.
            world_size: How many processes share the archives.
            worker: The number of this worker; with `num_workers`, None asks PyTorch's ``DataLoader`` if this is one of
                its workers, else is the only one.
            num_workers: How many workers each process has.

        Raises:
            TypeError: If a number is no int.
            ValueError: If numbers do not fit each other, or if this one gets no sample: there are too few archives.
        """
        part, parts = find_part(rank, world_size, worker, num_workers)
        chosen = type(self).__new__(type(self))
        chosen._use(self._shards[part::parts])  # noqa: SLF001 - our own.
        if not len(chosen):
            raise ValueError(
                f"There are {len(self._shards)} archives for {parts} workers of all ranks, and number {part} of them "
                "gets no sample: take fewer workers, write more archives, or share the samples by an EpochSampler."
            )
        return chosen

    def locate(self, position: int) -> tuple[str, TarSample]:
        """Return where a sample lies: the path of its archive, and its members there.

        Args:
            position: That of the sample. A negative one counts from the end.

        Raises:
            IndexError: If there is no such sample.
        """
        shard, number = self._find(self._check(position))
        return self._shards[shard].place.path, self._shards[shard].locate(number)

    def __len__(self) -> int:
        return self._starts[-1]

    def __repr__(self) -> str:
        return f"TarShards: {len(self)} samples in {len(self._shards)} archives"

    def _read(self, positions: list[int]) -> list[dict[str, Any]]:
        # For each archive the places in the result, and the numbers of the samples.
        wanted: dict[int, tuple[list[int], list[int]]] = {}
        for place, position in enumerate(positions):
            shard, number = self._find(position)
            places, numbers = wanted.setdefault(shard, ([], []))
            places.append(place)
            numbers.append(number)
        calls = [partial(self._shards[shard].read, numbers) for shard, (_, numbers) in wanted.items()]
        # What is mapped takes no time worth a thread.
        stored = any(self._shards[shard].place.store is not None for shard in wanted)
        results = read_together(calls) if stored else [call() for call in calls]
        records: list[dict[str, Any]] = [{}] * len(positions)
        for (places, _), found in zip(wanted.values(), results, strict=True):
            for place, record in zip(places, found, strict=True):
                records[place] = record
        return records

    def _ahead(self) -> int:
        return _AHEAD if any(shard.place.store is not None for shard in self._shards) else 0

    def _find(self, position: int) -> tuple[int, int]:
        shard = bisect_right(self._starts, position) - 1
        return shard, position - self._starts[shard]

    def _sizes(self) -> list[int]:
        return [end - start for start, end in zip(self._starts, self._starts[1:], strict=False)]
