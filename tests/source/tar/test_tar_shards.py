"""Whole samples of tar archives, in any order, from files and from a store."""

from __future__ import annotations

import json
import os
import pickle
import tarfile
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.io.tars import make_tar
from tests.source.counting_store import CountingStore

from spdl.dataloader import DataLoader, PyTorchDataLoader
from spdl.io import FormatError, group_samples, iter_tarfile, tar_index
from spdl.pipeline import PipelineBuilder
from spdl.source import BlockShuffledOrder, EpochSampler, TarShards
from spdl.store import LocalStore
from spdl.testing import assert_resumes_exactly

if TYPE_CHECKING:
    from pathlib import Path

COUNTS = (4, 0, 7, 2)


def members(shard: int, count: int) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = [("README", b"no sample")]
    for number in range(count):
        key = f"a/b.c/{shard}{number:04}"
        found += [(f"{key}.JPG", os.urandom(700 * number)), (f"{key}.cls.txt", b"%d" % number)]
        # A name that does not fit into a header.
        found += [(f"{key}.{'long' * 30}", b"x")] if number == 1 else []
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for shard, count in enumerate(COUNTS):
        data = make_tar(members(shard, count), ("gnu", "pax", "pax", "gnu")[shard], b"52")
        (tmp_path / f"train-{shard:02}.tar").write_bytes(data)
        os.utime(tmp_path / f"train-{shard:02}.tar", (1, 1))
    return tmp_path


def plain(record: dict[str, Any]) -> dict[str, Any]:
    return {name: part if name == "__key__" else bytes(part) for name, part in record.items()}


def expected(folder: Path) -> list[dict[str, Any]]:
    paths = sorted(folder.glob("*.tar"))
    return [plain(sample) for path in paths for sample in group_samples(iter_tarfile(path))]


def write_dali(folder: Path) -> None:
    """Write index files by tarfile, as wds2idx does."""
    for path in folder.glob("*.tar"):
        samples: dict[str, list[str]] = {}
        with tarfile.open(path) as archive:
            for member in archive:
                name = member.name
                start = name.rfind("/") + 1
                if not member.isreg() or "." not in name[start:]:
                    continue
                dot = name.index(".", start)
                fields = f"{name[dot + 1 :]} {member.offset_data} {member.size} {name}"
                samples.setdefault(name[:dot], []).append(fields)
        lines = [f"v1.2 {len(samples)}", *(" ".join(fields) for fields in samples.values())]
        path.with_suffix(".idx").write_text("\n".join(lines) + "\n")


def write_wids(folder: Path, **changes: int) -> Path:
    shards = [{"url": f"train-{shard:02}.tar", "nsamples": count} | changes for shard, count in enumerate(COUNTS)]
    path = folder / "train.json"
    path.write_text(json.dumps({"wids_version": 1, "shardlist": shards}))
    return path


def every_way(folder: Path, cache: Path) -> dict[str, TarShards]:
    write_dali(folder)
    write_wids(folder)
    store = CountingStore(folder)
    pattern = "train-{00..03}.tar"
    return {
        "files": TarShards(folder / pattern),
        "a list of files": TarShards(sorted(folder.glob("*.tar"))),
        "a store": TarShards(pattern, store=store, cache=cache),
        "DALI": TarShards(folder / pattern, index=folder / "train-{00..03}.idx"),
        "DALI in a store": TarShards(pattern, store=store, index="train-{00..03}.idx", cache=cache),
        "wids": TarShards(folder / "train.json"),
        "wids in a store": TarShards("train.json", store=store, cache=cache),
    }


def test_the_samples_are_those_of_webdataset(folder: Path, tmp_path: Path) -> None:
    samples = expected(folder)
    for name, shards in every_way(folder, tmp_path / "cache").items():
        assert len(shards) == len(samples) == 13, name
        assert [plain(shards[position]) for position in range(13)] == samples, name
        assert [plain(record) for record in shards] == samples, name
        assert [plain(record) for record in shards.iterate_from(5)] == samples[5:], name
        assert [plain(record) for record in shards.__getitems__([12, 0, -4, 3, 3])] == [
            samples[position] for position in (12, 0, 9, 3, 3)
        ]
        assert [plain(record) for record in shards[3:6]] == samples[3:6]
        assert shards.block_sizes == [4, 7, 2]
        assert repr(shards) == "TarShards: 13 records in 4 archives"
        path, sample = shards.locate(-1)
        assert (path.rpartition("/")[2], sample.key) == ("train-03.tar", samples[-1]["__key__"])
        with pytest.raises(IndexError, match="13 records in 4 archives has no position 13"):
            shards[13]
        with pytest.raises(IndexError):
            shards.__getitems__([0, -14])
        with pytest.raises(ValueError, match="`position`"):
            shards.iterate_from(14)


def test_the_same_samples_have_the_same_fingerprint(folder: Path, tmp_path: Path) -> None:
    ways = every_way(folder, tmp_path / "cache")
    assert len({shards.fingerprint() for shards in ways.values()}) == 1
    assert TarShards(folder / "train-{03..00}.tar").fingerprint() != ways["files"].fingerprint()


def test_copies_in_other_processes_read_the_same(folder: Path, tmp_path: Path) -> None:
    for name, shards in every_way(folder, tmp_path / "cache").items():
        if "store" not in name:
            copy = pickle.loads(pickle.dumps(shards))  # noqa: S301 - our own.
            assert plain(copy[7]) == plain(shards[7])


def test_a_batch_is_one_request_for_each_archive(folder: Path, tmp_path: Path) -> None:
    store = CountingStore(folder)
    shards = TarShards("train-{00..03}.tar", store=store, cache=tmp_path / "cache")
    store.requests.clear()
    shards.__getitems__([0, 12, 3, 11, 1])
    assert sorted(path for path, _ in store.requests) == ["train-00.tar", "train-03.tar"]


def test_a_shard_of_a_list_is_opened_when_it_is_needed(folder: Path, tmp_path: Path) -> None:
    write_wids(folder)
    store = CountingStore(folder)
    shards = TarShards("train.json", store=store, cache=tmp_path / "cache")
    assert store.requests == [("train.json", (folder / "train.json").stat().st_size)]
    assert len(shards.fingerprint()) > 10
    shards[12]
    assert {path for path, _ in store.requests} == {"train.json", "train-03.tar"}


def test_later_runs_and_other_ranks_read_no_header(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    TarShards("train-{00..03}.tar", store=CountingStore(folder), cache=cache)
    store = CountingStore(folder)
    shards = TarShards("train-{00..03}.tar", store=store, cache=cache)
    # A listing for each, for the etag.
    assert sorted(store.requests) == [(f"train-{shard:02}.tar", 0) for shard in range(4)]
    assert [plain(record) for record in shards] == expected(folder)
    # One that is damaged is made again.
    for path in cache.glob("*.index"):
        path.write_bytes(path.read_bytes()[:-7])
    assert len(TarShards("train-{00..03}.tar", store=CountingStore(folder), cache=cache)) == 13
    # So is that of an archive which was replaced.
    (folder / "train-00.tar").write_bytes(make_tar([("one.txt", b"1")]))
    assert len(TarShards("train-{00..03}.tar", store=CountingStore(folder), cache=cache)) == 10


def test_ranks_that_begin_at_once_read_an_archive_once(folder: Path, tmp_path: Path) -> None:
    store = CountingStore(folder)
    threads = [
        threading.Thread(target=TarShards, args=("train-02.tar",), kwargs={"store": store, "cache": tmp_path / "c"})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([size for _, size in store.requests if size]) == 1


def test_the_users_cache_is_the_default(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    TarShards("train-00.tar", store=LocalStore(folder))
    assert len(list((tmp_path / "user" / "spdl" / "tar").glob("*.index"))) == 1
    # A folder that cannot be written to costs time, and nothing else.
    (tmp_path / "file").touch()
    assert len(TarShards("train-00.tar", store=LocalStore(folder), cache=tmp_path / "file")) == 4


def sparse_archive(path: Path, size: int, member: int) -> int:
    """Write headers alone: an archive of `size` bytes that takes a few kB on the disk."""
    count = size // (member + 512)
    with path.open("wb") as file:
        for number in range(count):
            header = tarfile.TarInfo(f"{number:08}.jpg")
            header.size = member
            file.seek(number * (512 + -(-member // 512) * 512))
            file.write(header.tobuf(tarfile.GNU_FORMAT))
        file.truncate(file.tell() + -(-member // 512) * 512 + 1024)
    return count


@pytest.mark.parametrize(("size", "member"), [(10 << 30, 4 << 20), (1 << 30, 100_000)])
def test_a_large_archive_is_opened_by_its_headers(tmp_path: Path, size: int, member: int) -> None:
    count = sparse_archive(tmp_path / "large.tar", size, member)
    store = CountingStore(tmp_path)
    shards = TarShards("large.tar", store=store, cache=tmp_path / "cache")
    assert len(shards) == count
    assert store.bytes_read <= (tmp_path / "large.tar").stat().st_size / 100
    store.requests.clear()
    assert shards[count - 1]["__key__"] == f"{count - 1:08}"
    assert store.bytes_read == 512 + member


def test_an_archive_of_small_members_is_read_in_large_pieces(tmp_path: Path) -> None:
    (tmp_path / "small.tar").write_bytes(make_tar([(f"{number}.txt", bytes(2000)) for number in range(4000)]))
    store = CountingStore(tmp_path)
    assert len(TarShards("small.tar", store=store, cache=tmp_path / "cache")) == 4000
    assert len(store.requests) <= 5


def test_shards_are_split_among_workers_and_ranks(folder: Path) -> None:
    shards = TarShards(folder / "train-{00..03}.tar")
    keys = [record["__key__"] for record in shards]
    ranks = [shards.split(rank, 2) for rank in range(2)]
    assert [len(rank) for rank in ranks] == [11, 2]
    assert sorted(record["__key__"] for rank in ranks for record in rank) == sorted(keys)
    assert shards.split(0, 2, worker=0, num_workers=2).block_sizes == [4]
    assert shards.split(0, 2, worker=1, num_workers=2).block_sizes == [7]
    with pytest.raises(ValueError, match="Worker 1 of 4 of all ranks gets no record of the 4 archives"):
        shards.split(1, 4)
    with pytest.raises(ValueError, match="`num_workers` must be given together with `worker`"):
        shards.split(worker=1)


def test_ranks_and_workers_are_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pytest.importorskip("torch.utils.data")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    shards = TarShards(folder / "train-{00..03}.tar")
    assert shards.split().block_sizes == [2]

    class Info:
        id, num_workers = 0, 1

    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(data, "get_worker_info", Info)
    assert shards.split().block_sizes == [4, 7]


def test_a_pipeline_goes_on_within_an_archive(folder: Path, tmp_path: Path) -> None:
    for shards in every_way(folder, tmp_path / "cache").values():
        direct = PipelineBuilder().add_source(shards).add_sink(2).build(num_threads=1)
        with direct.auto_stop():
            assert [plain(record) for record in direct] == expected(folder)

        def make(shards: TarShards = shards) -> DataLoader[int, Any]:
            order = BlockShuffledOrder(len(shards), block=shards.block_sizes, window=2, seed=3)
            return DataLoader(
                EpochSampler(order, batch_size=3, rank=0, world_size=1, data=shards.fingerprint()),
                batch_size=3,
                aggregator=lambda batch: [plain(record)["__key__"] for record in shards.__getitems__(batch)],
                output_order="input",
                num_threads=2,
            )

        assert_resumes_exactly(make, epochs=2, cuts=(0, 2, 5, 7))
    assert_resumes_exactly(
        lambda: (
            PipelineBuilder()
            .add_source(TarShards(folder / "train-{00..03}.tar"))
            .pipe(lambda record: record["__key__"])
            .add_sink(1)
            .build(num_threads=1)
        ),
    )


def test_pytorchs_loader_reads_batches(folder: Path) -> None:
    pytest.importorskip("torch")
    shards = TarShards(folder / "train-{00..03}.tar")

    def make() -> Any:
        return PyTorchDataLoader(
            shards, batch_size=4, collate_fn=lambda records: [record["__key__"] for record in records]
        )

    assert [key for batch in make() for key in batch] == [record["__key__"] for record in shards]
    assert_resumes_exactly(make)


def test_mistakes_are_explained(folder: Path, tmp_path: Path) -> None:
    make: Any = TarShards
    one = folder / "train-00.tar"
    cases: list[tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
        ((3,), {}, TypeError, "`shards` must be a path or URL, a pattern"),
        (([b"a.tar"],), {}, TypeError, "`shards`"),
        (([],), {}, ValueError, "`shards` must be at least one path"),
        ((one,), {"store": folder}, TypeError, "`store` must be a store"),
        ((one,), {"cache": 3}, TypeError, "`cache` must be a path"),
        ((one,), {"index": ["a", "b"]}, ValueError, "`index` must be as many paths as there are shards, which are 1"),
        ((folder / "train-01.tar",), {}, ValueError, "`shards` must be archives with samples in them"),
        ((folder / "none.tar",), {}, FileNotFoundError, "none.tar"),
        (("none.tar",), {"store": LocalStore(folder)}, FileNotFoundError, "none.tar"),
    ]
    for arguments, options, error, message in cases:
        with pytest.raises(error, match=message):
            make(*arguments, **options)
    with pytest.raises(TypeError, match="`position` must be an int or a slice"):
        make(one)["a"]
    (folder / "damaged.tar").write_bytes(one.read_bytes()[:3000])
    for store in (None, LocalStore(folder)):
        with pytest.raises(FormatError, match=r"damaged\.tar.* is truncated"):
            make(folder / "damaged.tar" if store is None else "damaged.tar", store=store, cache=tmp_path / "cache")
    (folder / "twice.tar").write_bytes(make_tar([("1.jpg", b"a"), ("1.JPG", b"b")]))
    with pytest.raises(FormatError, match="the sample '1' has the part 'jpg' twice"):
        make(folder / "twice.tar")[0]


def test_an_archive_that_is_not_the_one_of_its_index(folder: Path, tmp_path: Path) -> None:
    write_dali(folder)
    path = folder / "train-02.tar"
    store = CountingStore(folder)  # It does not say which version it reads.
    indexed = TarShards("train-02.tar", store=store, cache=tmp_path / "cache")
    listed = TarShards("train-02.tar", store=store, index="train-02.idx")
    assert plain(indexed[4]) == plain(listed[4]) == expected(folder)[8]
    names = [(name.replace("/2", "/9"), content) for name, content in members(2, 7)]
    path.with_suffix(".new").write_bytes(make_tar(names, "pax", b"52"))
    path.with_suffix(".new").replace(path)
    stale = TarShards(path, index=folder / "train-02.idx")
    for shards, index in ((indexed, "the cache"), (listed, "train-02.idx"), (stale, "train-02.idx")):
        with pytest.raises(FormatError, match=rf"has no member 'a/b\.c/2.* in .*{index}.*Make the index again"):
            shards[4]
    path.with_suffix(".new").write_bytes(make_tar(names)[:600])
    path.with_suffix(".new").replace(path)
    for shards in (indexed, listed):
        with pytest.raises(FormatError, match="has 600 bytes, but by its index a record goes up to byte"):
            shards[4]
    with pytest.raises(FormatError, match="has 600 bytes, but by its index a record goes up to byte"):
        TarShards(path, index=folder / "train-02.idx")[4]


def test_an_archive_that_the_index_beside_it_is_not_of(tmp_path: Path) -> None:
    """Two members in the middle have other sizes: size and time of the archive are as they were, and most headers."""
    path = tmp_path / "train.tar"
    sizes = [600 + number for number in range(9)]

    def write() -> TarShards:
        path.write_bytes(make_tar([(f"{number}.jpg", bytes([number]) * size) for number, size in enumerate(sizes)]))
        os.utime(path, (1, 1))
        return TarShards(path)

    write()
    sizes[2], sizes[3] = sizes[3], sizes[2]
    shards = write()
    assert bytes(shards[1]["jpg"]) == bytes([1]) * 601
    with pytest.raises(
        FormatError, match=r"train\.tar has no member '2\.jpg' of 602 bytes .*, where its index .*train\.tar\.index"
    ):
        shards[2]
    path.with_name("train.tar.index").unlink()
    assert [bytes(sample["jpg"]) for sample in TarShards(path)] == [bytes([n]) * size for n, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not an index of version v1.2"),
        ("v1.1 1\njpg 512 3", r"not an index of version v1\.2 .*it begins with 'v1\.1 1'"),
        ("v1.2 2\njpg 512 3 a.jpg", "says it has 2 samples, and has 1"),
        ("v1.2 1\njpg 512 3 a b.jpg", "names with spaces cannot be told apart"),
        ("v1.2 1\njpg x 3 a.jpg", "jpg x 3 a.jpg is not a member of a tar archive"),
        ("v1.2 1\njpg 500 3 a.jpg", "is not a member"),
        ("v1.2 1\ncls 512 3 a.jpg", "is not a member"),
        ("v1.2 1\njpg 512 3 a.jpg jpg 1536 3 b.jpg", "it names 2 samples, not 1"),
    ],
)
def test_index_files_that_are_none(folder: Path, content: str, message: str) -> None:
    (folder / "train-00.idx").write_text(content)
    with pytest.raises(FormatError, match=message):
        TarShards(folder / "train-00.tar", index=folder / "train-00.idx")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("{}", "there is no 'shardlist'"),
        ("3", "there is no 'shardlist'"),
        ('[{"url": "a.tar"}]', "a shard has a 'url' and the number 'nsamples'"),
        ('{"shardlist": [{"url": 3, "nsamples": 1}]}', "a shard has a 'url'"),
        ('{"shardlist": [7]}', "a shard has a 'url'"),
        ('{"shardlist": [{"url": "a.tar", "nsamples": 9223372036854775808}]}', "the number 'nsamples'"),
    ],
)
def test_lists_of_shards_that_are_none(folder: Path, content: str, message: str) -> None:
    (folder / "train.json").write_text(content)
    with pytest.raises(FormatError, match=message):
        TarShards(folder / "train.json")


def test_a_list_that_counts_wrongly(folder: Path) -> None:
    shards = TarShards(write_wids(folder, nsamples=5))
    assert len(shards) == 20
    with pytest.raises(FormatError, match=r"train-00\.tar has 4 samples, but its list of shards says 5"):
        shards[0]


def test_samples_that_make_no_sense_are_explained(tmp_path: Path) -> None:
    for part in ("jpg", "__key__"):
        (tmp_path / "a.tar").write_bytes(
            make_tar([("0.jpg", b"x"), ("1.jpg", b"x"), (f"1.{part}", b"y"), ("2.jpg", b"z")], "gnu", b"52")
        )
        samples = TarShards(tmp_path / "a.tar")
        assert len(samples) == 3
        assert bytes(samples[2]["jpg"]) == b"z"
        for read in (samples.__getitem__, samples.locate):
            with pytest.raises(FormatError, match=rf"a\.tar, sample 1: the sample '1' has the part '{part}' twice"):
                read(1)


def test_members_that_tell_of_the_archive_belong_to_no_sample(tmp_path: Path) -> None:
    names = [
        "__meta__/a.json",
        "1.jpg",
        "__meta__/b.json",
        "1.cls",
        "__x__.jpg",
        "____/2.jpg",
        "_a__/3.jpg",
        "__/4.jpg",
    ]
    (tmp_path / "a.tar").write_bytes(make_tar([(name, b"x") for name in names], "gnu", b"52"))
    found = [[each["__key__"], *each][:1] + list(each)[1:] for each in TarShards(tmp_path / "a.tar")]
    assert found == [["1", "jpg", "cls"], ["__x__", "jpg"], ["_a__/3", "jpg"], ["__/4", "jpg"]]
    assert [list(each)[1:] for each in group_samples(iter_tarfile(tmp_path / "a.tar"))] == [each[1:] for each in found]
    write_dali(tmp_path)  # It lists all members.
    indexed = TarShards(tmp_path / "a.tar", index=tmp_path / "a.idx")
    assert [plain(each) for each in indexed] == expected(tmp_path)


def test_an_index_may_have_names_with_any_ends_of_lines(tmp_path: Path) -> None:
    name = "a\u2028b\x85c\x0bd.jpg"
    (tmp_path / "a.tar").write_bytes(make_tar([(name, b"x")], "gnu", b"52"))
    offset = tar_index(tmp_path / "a.tar")[0].offset
    (tmp_path / "a.idx").write_bytes(f"v1.2 1\njpg {offset} 1 {name}\n".encode())
    assert [each["__key__"] for each in TarShards(tmp_path / "a.tar", index=tmp_path / "a.idx")] == [name[:-4]]
