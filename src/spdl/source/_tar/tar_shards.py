"""The samples of tar archives, by their positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl._check import check_max_failures, check_path, refuse
from spdl.source._records.place import check_is_no_folder, find_places
from spdl.source._records.sharded import ShardedRecords
from spdl.source._tar.tar_shard import TarShard
from spdl.source._tar.wids_index import read_wids_index

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from fractions import Fraction

    from spdl.io import TarSample
    from spdl.source._records.left_out import ShardFailure
    from spdl.store import Store

__all__ = ["TarShards"]


class TarShards(ShardedRecords[dict[str, Any], TarShard]):
    """The samples of tar archives: in any order, from this machine or a store, without unpacking.

    Files in an archive that follow each other and have the same name up to the first dot are one sample, as in
    WebDataset: of ``a/b.c/00012.cls.jpg`` the key is ``a/b.c/00012`` and the part ``cls.jpg``. A record is a dict of
    the contents of the parts by their names, with the key as ``"__key__"``. Contents are read-only views. Where samples
    have a part by one name or another, ``sample["jpg;jpeg;png"]`` is the first of these that there is. The KeyError for
    a part that a sample lacks names the archive, the key and the parts.

    Where the samples lie is found by the headers of the archives alone, once: for a file the index is kept beside it
    (`spdl.io.tar_index`), for an object of a store in a cache folder. Files are mapped into memory. Of an object, a
    sample is one range, so `__getitems__` reads a batch in one call for each archive, of all archives at once.

    Args:
        shards: The archives in the order of their samples: paths, URLs or patterns such as
            ``train-{0000..0099}.tar``, which are written out as a shell does it. Or one list of shards that wids has
            written, a path that ends in ``.json``: then an archive is opened when a sample of it is asked for. Archives
            must not be compressed.
        store: Where the archives are, if neither on this machine nor where URLs say; paths are those of the store.
        index: The index files of the archives, if there are some in the format of DALI 1.2: paths or patterns, one for
            each archive. None finds the samples.
        cache: The folder that keeps where the samples of objects of a store are, which ranks and later runs share. None
            is a folder in the user's cache. Archives on this machine have theirs beside them.
        max_failures: How many archives may be damaged, cut short or missing: an int, where a negative one sets no
            limit, or a `fractions.Fraction` of all of them, above 0 and at most 1. They are left out as a whole, logged
            by ``spdl.source``, and listed in `failures`. Archives with an `index`, and those of a list of wids, are
            not opened now and do not count: the samples of a broken one fail one by one.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If there are no samples, or not as many index files as archives.
        FormatError: If more archives than `max_failures` are compressed, damaged, truncated or missing, or have a
            sparse file; if a sample has a part twice, or an index is damaged or does not belong to its archive; some of
            these when a sample is read.
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

    _called = "archives"

    def __init__(
        self,
        shards: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        store: Store | None = None,
        index: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
        cache: str | os.PathLike[str] | None = None,
        max_failures: int | Fraction = 0,
    ) -> None:
        limit = check_max_failures(max_failures)
        if cache is not None:
            check_path("cache", cache)
        places = find_places("shards", shards, store)
        check_is_no_folder("shards", [place.path for place in places if place.store is None])
        counts: list[int | None] = [None] * len(places)
        if len(places) == 1 and places[0].path.endswith(".json"):
            listed = read_wids_index(places[0])
            places, counts = [place for place, _ in listed], [count for _, count in listed]
        indices = [None] * len(places) if index is None else find_places("index", index, store)
        if len(indices) != len(places):
            refuse(ValueError, "index", f"as many paths as there are shards, which are {len(places)}", index)
        super().__init__([TarShard(*each, cache) for each in zip(places, indices, counts, strict=True)], limit)
        if not len(self):
            refuse(ValueError, "shards", "archives with samples in them", shards)

    @property
    def failures(self) -> list[ShardFailure]:
        """A new list of the archives that were left out, also in what `split` returns."""
        return list(self._left_out)

    def locate(self, position: int) -> tuple[str, TarSample]:
        """Return where a sample lies: the path of its archive, and its members there.

        Args:
            position: That of the sample. A negative one counts from the end.

        Raises:
            IndexError: If there is no such sample.
        """
        shard, number = self._find(self._check(position))
        return shard.place.path, shard.locate(number)

    def _name(self, position: int) -> str | None:
        shard, number = self._find(position)
        return shard.name(number)
