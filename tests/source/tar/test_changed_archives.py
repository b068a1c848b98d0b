"""Archives of Python's tarfile that change after their index was made: their content or an error, never other bytes."""

from __future__ import annotations

import io
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from spdl.io import FormatError
from spdl.source import TarShards

if TYPE_CHECKING:
    from random import Random

    from spdl.source import ShardFailure

Samples = dict[str, dict[str, bytes]]

FORMATS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
SIZES = st.lists(st.sampled_from([0, 1, 511, 512, 513, 3000]), min_size=1, max_size=6)
LONG = 70


@dataclass
class Archive:
    """An archive of random bytes, as Python's tarfile writes it."""

    path: Path
    form: int
    names: list[str]
    sizes: list[int]
    random: Random

    def write(self) -> Samples:
        """Write it anew and return its samples."""
        samples: Samples = {}
        new = self.path.with_suffix(".new")
        with tarfile.open(new, "w", format=self.form) as archive:
            for name, size in zip(self.names, self.sizes, strict=True):
                samples[name] = {"bin": self.random.randbytes(size), "cls": self.random.randbytes(2)}
                for part, content in samples[name].items():
                    member = tarfile.TarInfo(f"{name}.{part}")
                    member.size = len(content)
                    # In the pax format a fraction of a second takes a header of its own.
                    member.mtime = self.random.choice([0, 1_700_000_000, 1_700_000_000.25])
                    archive.addfile(member, io.BytesIO(content))
                if self.random.random() < 0.2:
                    folder = tarfile.TarInfo(f"{name}.d")
                    folder.type = tarfile.DIRTYPE
                    archive.addfile(folder)
        new.replace(self.path)
        return samples

    def change(self, how: str, samples: Samples) -> Samples:
        """Put another archive in its place, and return the samples of that."""
        content = self.path.read_bytes()
        if how == "missing":
            self.path.unlink()
            return {}
        if how in ("cut", "longer"):
            # Without the padding at its end an archive is whole.
            cut = content[: self.random.randrange(len(content))]
            longer = content + bytes(1024 * self.random.randint(1, 20))
            self.path.unlink()
            self.path.write_bytes(cut if how == "cut" else longer)
            return samples
        if how == "other sizes":
            self.sizes = [self.random.choice([0, 1, 511, 512, 700]) for _ in self.sizes]
        if how == "other names":
            self.names = [f"{name}{self.random.choice('ab')}" for name in self.names]
        return self.write()


def read(shards: TarShards) -> Samples:
    return {
        sample["__key__"]: {part: bytes(sample[part]) for part in sample if not part.startswith("__")}
        for sample in shards
    }


def names_of(number: int, count: int, random: Random) -> list[str]:
    return [f"{'d/' * random.randrange(3)}{number}{place}{'n' * random.randrange(LONG)}" for place in range(count)]


def joined(contents: list[Samples]) -> Samples:
    return {name: sample for samples in contents for name, sample in samples.items()}


@given(
    st.lists(SIZES, min_size=2, max_size=4),
    st.sampled_from(FORMATS),
    st.sampled_from(["cut", "missing", "other bytes", "other sizes", "other names", "longer"]),
    st.randoms(use_true_random=False),
)
def test_nothing_is_wrong_without_a_word(sizes: list[list[int]], form: int, how: str, random: Random) -> None:
    with TemporaryDirectory() as folder:
        archives = [
            Archive(Path(folder, f"{number}.tar"), form, names_of(number, len(each), random), each, random)
            for number, each in enumerate(sizes)
        ]
        contents = [archive.write() for archive in archives]
        paths = [archive.path for archive in archives]
        assert read(TarShards(paths)) == joined(contents)
        keep_indexes = random.random() < 0.8
        for path in () if keep_indexes else Path(folder).glob("*.index"):
            path.unlink()
        victim = random.randrange(len(paths))
        path, then = paths[victim], paths[victim].stat()
        contents[victim] = archives[victim].change(how, contents[victim])
        if how != "missing" and random.random() < 0.8:
            # As `cp -p` and rsync do.
            os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))
        found: Samples = {}
        failures: list[ShardFailure] = []
        refused: FormatError | None = None
        try:
            shards = TarShards(paths, max_failures=1)
            failures, found = shards.failures, read(shards)
        except FormatError as error:
            # Some headers are looked at when the index is loaded. That of another member is looked at when it is read.
            refused = error
        if refused is not None:
            assert keep_indexes
            assert how in ("other bytes", "other sizes", "other names")
            assert refused.path == str(path)
            assert f"Delete {path}.index" in str(refused)
        elif failures:
            assert how in ("cut", "missing")
            assert [failure.path for failure in failures] == [str(path)]
            assert found == joined(contents[:victim] + contents[victim + 1 :])
        else:
            assert how != "missing"
            assert found == joined(contents)
