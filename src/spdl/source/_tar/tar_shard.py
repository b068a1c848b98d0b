"""One tar archive of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl._forks import RenewedLock
from spdl.io import FormatError
from spdl.io._archive.member_header import BEFORE, has_header, not_there
from spdl.io._archive.tar_headers import BLOCK
from spdl.io._archive.tar_index import SUFFIX, is_index_of
from spdl.io._archive.tar_samples import KEY
from spdl.io._common.one_version import ChangedError
from spdl.source._records.contents import MappedContents, open_contents
from spdl.source._tar.dali_index import read_dali_index
from spdl.source._tar.members import find_members
from spdl.source._tar.parts import TarParts

if TYPE_CHECKING:
    from spdl.io import SampleIndex, TarIndex, TarMember, TarSample
    from spdl.io._array.kept_arrays import CachePath
    from spdl.source._records.contents import Contents
    from spdl.source._records.place import Place
    from spdl.store import Entry

__all__ = ["TarShard"]


class TarShard:
    """A tar archive whose samples are read by their positions. It is opened when the first one is asked for.

    Args:
        place: Where it is.
        index: Where its index in DALI's format is, or None.
        count: How many samples it has, if that is known already.
        cache: The folder that keeps the index of an archive in a store.
    """

    def __init__(self, place: Place, index: Place | None, count: int | None, cache: CachePath) -> None:
        self.place = place
        self._index = index
        self._count = count
        self._cache = cache
        # An index may be of an archive that another one has replaced, or that is being replaced.
        self._unsure = True
        self._opened: tuple[Contents, SampleIndex, TarIndex] | None = None
        # Which version the index is of, if it is in a store: also for copies in other processes.
        self._entry: Entry | None = None
        # What is wrong with the archive: finding it out again for each sample could take longer than all others do.
        self._broken: str | None = None
        self._lock = RenewedLock()

    def __len__(self) -> int:
        return len(self._open()[1]) if self._count is None else self._count

    def locate(self, number: int) -> TarSample:
        """Return where a sample lies.

        Raises:
            FormatError: If it has a part twice.
        """
        return self._sample(self._open()[1], number)

    def name(self, number: int) -> str:
        """Return how messages call a sample: its archive and its key."""
        try:
            return f"{self.place.path}/{self.locate(number).key}"
        except (FormatError, OSError):
            return f"{self.place.path}, sample {number}"

    def read(self, numbers: list[int]) -> list[TarParts]:
        """Return samples: views of their parts by name, and their keys.

        Raises:
            FormatError: If a sample has a part twice; a `ChangedError` if the archive is not the one that was indexed.
            OSError: If it cannot be read.
        """
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
            error.args = (f"{self.place}, sample {number}: {error}. Write the archive anew with other names",)
            raise

    def _open(self) -> tuple[Contents, SampleIndex, TarIndex]:
        if self._opened is None:
            with self._lock:
                if self._broken is not None:
                    raise FormatError(self._broken, path=self.place.path)
                if self._opened is None:
                    try:
                        self._opened = self._load()
                    except ChangedError:
                        raise
                    except FormatError as error:
                        self._broken = str(error)
                        raise
                    self._entry = self._opened[0].entry
        return self._opened

    def _load(self) -> tuple[Contents, SampleIndex, TarIndex]:
        if self._index is None:
            archive, members = find_members(self.place, self._cache, self._entry)
        else:
            archive, members = open_contents(self.place, self._entry), read_dali_index(self._index)
        samples = members.samples()
        if self._count is not None and len(samples) != self._count:
            raise FormatError(
                f"{self.place} has {len(samples)} samples, but its list of shards says {self._count}: write it anew"
            )
        return archive, samples, members

    def _refuse_unless_sure(self, member: TarMember, archive: Contents, index: TarIndex) -> None:
        """Raise the error for a member whose header is not as most are, unless it is where all headers lead to.

        Raises:
            ChangedError: If it is another archive than the one that was indexed.
        """
        if self._index is None and isinstance(archive, MappedContents):
            if is_index_of(index, archive.whole()):
                self._unsure = False
                return
            raise ChangedError(not_there(self.place.path, member, self.place.path + SUFFIX))
        where = "the cache" if self._index is None else str(self._index)
        raise ChangedError(
            f"{self.place} has no member {member.name!r} of {member.size} bytes at byte {member.offset}, where the "
            f"index in {where} says it is: it was written anew since. Make the index anew"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


def _span(sample: TarSample) -> tuple[int, int]:
    members = sample.parts.values()
    before = BLOCK if all(member.name.isascii() for member in members) else BEFORE
    return (
        max(0, min(member.offset for member in members) - before),
        max(member.offset + member.size for member in members),
    )
