"""Tar archives whose members with one stem are a record, as WebDataset writes them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spdl._check import check_max_failures, check_path, refuse, show
from spdl.io import FormatError, SampleIndex, TarIndex, TarMember, TarSample, tar_index
from spdl.io._shared import (
    BEFORE,
    BLOCK,
    KEY,
    SUFFIX,
    CachePath,
    ChangedError,
    OneVersion,
    TarColumns,
    has_header,
    is_index_of,
    is_metadata,
    not_there,
    split_name,
    stored_tar_index,
)
from spdl.source._place import Place, Stores, expand_braces, find_places
from spdl.source._shards.sharded import (
    Contents,
    LazyShard,
    MappedContents,
    ShardedRecords,
    ShardFailure,
    open_contents,
)

if TYPE_CHECKING:
    from spdl.store import Entry, Store

_SHOWN = 20


class TarParts(dict[str, Any]):
    """The contents of a sample's parts by their names, and its key; empty at first. Messages name the archive.

    A name with semicolons is the first of several that the sample has, as in WebDataset: ``parts["jpg;jpeg;png"]``.
    """

    __slots__ = ("archive",)

    def __init__(self, archive: str) -> None:
        super().__init__()
        self.archive = archive

    def __missing__(self, name: Any) -> Any:
        found = self._first_of(name)
        if found is None:
            raise KeyError(self._explain(name))
        return self[found]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or self._first_of(name) is not None

    def get(self, name: Any, default: Any = None, /) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 - this is it.

    def _first_of(self, names: object) -> str | None:
        if not isinstance(names, str) or ";" not in names:
            return None
        return next((name for name in names.split(";") if super(TarParts, self).__contains__(name)), None)

    def _explain(self, name: Any) -> str:
        own = [repr(part) for part in self if part != KEY]
        more = f" and {len(own) - _SHOWN} more" if len(own) > _SHOWN else ""
        has = f"the sample {super().get(KEY)!r} of {self.archive} has {', '.join(own[:_SHOWN]) or 'no part'}{more}"
        if isinstance(name, str) and ";" in name:
            return f"{has}, and none of {name!r}"
        return (
            f"{has}, but no part {show(name)}. Where names differ among samples, a name such as 'jpg;jpeg;png' is the "
            "first of these that there is"
        )


def find_members(place: Place, cache: CachePath, entry: Entry | None) -> tuple[Contents, TarIndex]:
    """Open an archive and return where its members lie, from what is kept of it or by its headers.

    From a store, it has to be the version `entry` if there is one, and the folder `cache` keeps its index.
    """
    if place.store is not None:
        archive = OneVersion(place.store, place.path, entry)
        archive.check(place.describe())
        return archive, stored_tar_index(archive, cache)
    while True:
        before = Path(place.path).stat()
        index = tar_index(place.path)
        contents = open_contents(place)
        # The file may have been replaced between the two calls.
        if os.path.samestat(before, Path(place.path).stat()):
            return contents, index


_VERSION = "v1.2"
_FIELDS = 4


def read_dali_index(place: Place) -> TarIndex:
    """Return the members that an index file lists.

    Its first line is ``v1.2`` and the number of samples. Each further line is a sample: for each of its members the
    extension, the position and the size of the content, and the name.
    """
    lines = place.read().decode("utf-8", "surrogateescape").split("\n")
    if not lines[-1]:
        lines.pop()
    version, _, number = (lines[0] if lines else "").partition(" ")
    if version != _VERSION or not (number.isascii() and number.isdigit()):
        first = lines[0][:40] if lines else ""
        raise FormatError(
            f"{place} is not an index of version {_VERSION} (wds2idx of DALI 1.22 and later): it begins with {first!r}"
        )
    if len(lines) - 1 != int(number):
        raise FormatError(f"{place} is damaged: it says it has {number} samples, and has {len(lines) - 1}")
    samples = [list(_read_line(place, line)) for line in lines[1:]]
    index = TarIndex(*TarColumns.of(member for sample in samples for member in sample))
    listed = sum(map(bool, samples))
    if len(index.samples()) != listed:
        raise FormatError(f"{place} is damaged: it names {len(index.samples())} samples, not {listed}")
    return index


def _read_line(place: Place, line: str) -> Iterator[tuple[bytes, int, int]]:
    fields = line.split(" ")
    if len(fields) % _FIELDS or not fields[0]:
        raise FormatError(
            f"{place}: a line does not consist of an extension, a position, a size and a name for each member (names "
            f"with spaces cannot be told apart): {line[:80]!r}"
        )
    for first in range(0, len(fields), _FIELDS):
        extension, offset, size, name = fields[first : first + _FIELDS]
        member = name.encode("utf-8", "surrogateescape")
        if is_metadata(member):  # DALI lists what tells of the archive as if it were a sample.
            continue
        sound = all(text.isascii() and text.isdigit() and len(text) < 19 for text in (offset, size))  # noqa: PLR2004
        if not sound or int(offset) < BLOCK or split_name(name)[1] != extension.lower():
            raise FormatError(f"{place}: {extension} {offset} {size} {name} is not a member of a tar archive")
        yield member, int(offset), int(size)


# No archive has so many samples, and the sum of many such numbers is still a length.
_MOST = 1 << 40
_MOST_ARCHIVES = 1_000_000


def read_wids_index(place: Place) -> list[tuple[Place, int]]:
    """Return the archives that a list names, below its folder, and how many samples each has."""
    description: Any = place.read_json()
    listed = description.get("shardlist") if isinstance(description, dict) else description
    if not isinstance(listed, list):
        keys = list(description) if isinstance(description, dict) else type(listed).__name__
        raise FormatError(f"{place} is not a list of shards as wids has them: there is no 'shardlist' in {keys}")
    named: list[tuple[str, int]] = []
    for shard in listed:
        named += _read_shard(place, shard)
        if len(named) > _MOST_ARCHIVES:
            raise FormatError(f"{place}: its patterns stand for more than {_MOST_ARCHIVES} archives")
    stores: Stores = {}
    return [(place.below(name, stores), count) for name, count in named]


def _read_shard(place: Place, shard: Any) -> list[tuple[str, int]]:
    url = shard.get("url") if isinstance(shard, dict) else None
    count = shard.get("nsamples") if isinstance(shard, dict) else None
    if not isinstance(url, str) or type(count) is not int or not 0 <= count < _MOST:
        raise FormatError(f"{place}: a shard has a 'url' and the number 'nsamples', got {show(shard)}")
    try:
        return [(name, count) for name in expand_braces("shards", url)]
    except ValueError as error:
        raise FormatError(f"{place}: the shard {show(url)} cannot be read: {error}") from error


class TarShard(LazyShard[tuple[Contents, SampleIndex, TarIndex]]):
    """A tar archive whose samples are read by their positions: by an index of DALI's, of ours, or of a cache."""

    def __init__(self, place: Place, index: Place | None, count: int | None, cache: CachePath) -> None:
        super().__init__(place)
        self._index = index
        self._count = count
        self._cache = cache
        # An index may be of an archive that another one has replaced, or that is being replaced.
        self._unsure = True
        # The archive's error: finding it out again for each sample could take longer than all others do.
        self._broken: str | None = None

    def __len__(self) -> int:
        return len(self._open()[1]) if self._count is None else self._count

    def locate(self, number: int) -> TarSample:
        return self._sample(self._open()[1], number)

    def name(self, number: int) -> str:
        try:
            return f"{self.place.path}/{self.locate(number).key}"
        except (FormatError, OSError):
            return f"{self.place.path}, sample {number}"

    def read(self, numbers: list[int]) -> list[TarParts]:
        """Return samples: views of their parts by name, and their keys. ChangedError if the archive has changed."""
        archive, index, members = self._open()
        samples = [self._sample(index, number) for number in numbers]
        # From the first header on, so that one request brings all parts, and what shows that they are these.
        spans = [_span(sample) for sample in samples]
        contents = archive.read([start for start, _ in spans], [stop - start for start, stop in spans])
        records = []
        name = str(self.place)
        for sample, (start, _), content in zip(samples, spans, contents, strict=True):
            record = TarParts(name)
            record[KEY] = sample.key
            for part, member in sample.parts.items():
                begin = member.offset - start
                if self._unsure and not has_header(content, begin, member):
                    self._refuse_unless_sure(member, archive, members)
                record[part] = content[begin : begin + member.size]
            records.append(record)
        return records

    def _sample(self, index: SampleIndex, number: int) -> TarSample:
        try:
            return index[number]
        except FormatError as error:
            error.args = (f"{self.place}, sample {number}: {error}. Write the archive again with other names",)
            raise

    def _load(self) -> tuple[Contents, SampleIndex, TarIndex]:
        if self._broken is not None:
            raise FormatError(self._broken, path=self.place.path)
        try:
            found = self._find()
        except ChangedError:
            raise
        except FormatError as error:
            self._broken = str(error)
            raise
        self._entry = found[0].entry
        return found

    def _find(self) -> tuple[Contents, SampleIndex, TarIndex]:
        if self._index is None:
            archive, members = find_members(self.place, self._cache, self._entry)
        else:
            archive, members = open_contents(self.place, self._entry), read_dali_index(self._index)
        samples = members.samples()
        if self._count is not None and len(samples) != self._count:
            raise FormatError(
                f"{self.place} has {len(samples)} samples, but its list of shards says {self._count}: write it again"
            )
        return archive, samples, members

    def _refuse_unless_sure(self, member: TarMember, archive: Contents, index: TarIndex) -> None:
        """Raise ChangedError for a member whose header is not as most are, unless it is where all headers lead to."""
        if self._index is None and isinstance(archive, MappedContents):
            if is_index_of(index, archive.whole()):
                self._unsure = False
                return
            raise ChangedError(not_there(self.place.path, member, self.place.path + SUFFIX))
        where = "the cache" if self._index is None else str(self._index)
        raise ChangedError(
            f"{self.place} has no member {member.name!r} of {member.size} bytes at byte {member.offset}, where the "
            f"index in {where} says it is: it was written again since. Make the index again"
        )


def _span(sample: TarSample) -> tuple[int, int]:
    members = sample.parts.values()
    before = BLOCK if all(member.name.isascii() for member in members) else BEFORE
    return (
        max(0, min(member.offset for member in members) - before),
        max(member.offset + member.size for member in members),
    )


class TarShards(ShardedRecords[dict[str, Any], TarShard]):
    """The samples of tar archives: in any order, from this machine or a store, without unpacking.

    Files in an archive that follow each other and have the same name up to the first dot are one sample, as in
    WebDataset: of ``a/b.c/00012.cls.jpg`` the key is ``a/b.c/00012`` and the part ``cls.jpg``. A record is a dict of
    the contents of the parts by their names, with the key as ``"__key__"``. Contents are read-only views. If samples
    have a part by one name or another, ``sample["jpg;jpeg;png"]`` is the first of these that there is. The KeyError for
    a part that a sample lacks names the archive, the key and the parts.

    The places of samples come from the headers of the archives alone, once: for a file the index is kept beside it
    (`spdl.io.tar_index`), for an object of a store in a cache folder. Files are mapped into memory. For an object, a
    sample is one range, so `__getitems__` reads a batch in one call for each archive, of all archives at once.

    Args:
        shards: The archives in the order of their samples: paths, URLs or patterns such as
            ``train-{0000..0099}.tar``, which are written out as a shell does it. Or one list of shards that wids has
            written, a path that ends in ``.json``: then an archive is opened when a sample of it is asked for. Archives
            must not be compressed.
        store: The store of the archives, unless they are on this machine or named by URLs; paths are relative to the
            store.
        index: The index files of the archives, if there are some in the format of DALI 1.2: paths or patterns, one for
            each archive. None finds the samples.
        cache: The folder that keeps where the samples of objects of a store are, which ranks and later runs share. None
            is a folder in the user's cache. Archives on this machine have theirs beside them.
        max_failures: How many archives may be damaged, cut short or missing: an int (a negative one sets no
            limit), or a `fractions.Fraction` of all of them, above 0 and at most 1. They are left out as a whole,
            logged by ``spdl.source``, and listed in `failures`. Archives with an `index`, and archives of a wids list,
            are not opened now and do not count: the samples of a broken one fail one by one.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If it would have no samples, or not as many index files as archives.
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
        places = find_places("shards", shards, store, "*.tar")
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
        """Return the place of a sample: the path of its archive, and its members there.

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
