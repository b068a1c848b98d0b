"""What lists and indexes name: files below their folder, whoever has written them, in all formats alike."""

from __future__ import annotations

import gc
import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.io.file_server import serving
from tests.io.tars import make_tar

from spdl.io import FormatError
from spdl.source import LitDataShards, MDSShards, TarShards

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPEC = '[1, {"type": "builtins.list", "context": "null", "children_spec": [{"type": null, "context": null, "children_spec": []}]}]'  # noqa: E501


def write_wids(folder: Path, name: str) -> TarShards:
    (folder / "train.json").write_text(json.dumps({"shardlist": [{"url": name, "nsamples": 1}]}))
    return TarShards(folder / "train.json")


def write_mds(folder: Path, name: str) -> MDSShards:
    shard: dict[str, Any] = {"format": "mds", "version": 2, "samples": 1, "compression": None}
    shard |= {
        "column_names": ["s"],
        "column_encodings": ["str"],
        "column_sizes": [None],
        "raw_data": {"basename": name},
    }
    (folder / "index.json").write_text(json.dumps({"version": 2, "shards": [shard]}))
    return MDSShards(folder)


def write_litdata(folder: Path, name: str) -> LitDataShards:
    config = {"compression": None, "data_format": ["str"], "data_spec": SPEC}
    (folder / "index.json").write_text(json.dumps({"config": config, "chunks": [{"filename": name, "chunk_size": 1}]}))
    return LitDataShards(folder)


FORMATS: dict[str, Callable[[Path, str], object]] = {"wids": write_wids, "mds": write_mds, "litdata": write_litdata}

STEPS = st.sampled_from(["", ".", "..", "...", "a", "b.tar", "~", "é", " ", "a\\b", "a\0b", "\n", "C:", "..a", "http:"])
NAMES = st.lists(STEPS, min_size=1, max_size=4).map("/".join)


def leads_below(name: str) -> bool:
    """Return whether a system would find this very path below any folder."""
    return (
        "://" not in name
        and not set(name) & {"\0", "\\"}
        and os.path.normpath(f"/folder/{name}") == f"/folder/{name}"  # What it means is what it says.
        and not name.startswith("/")
    )


@given(NAMES)
def test_a_name_leads_below_the_folder_or_is_refused(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    folder = tmp_path_factory.mktemp("lists")
    for write in FORMATS.values():
        if leads_below(name):
            write(folder, name)
        else:
            with pytest.raises(FormatError, match=r"\.json: it names .*only name files below its folder"):
                write(folder, name)


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize(
    "name",
    [
        "../x.tar",
        "/etc/passwd",
        "file:///etc/passwd",
        "FILE:///x",
        "https://x/y",
        "s3://b/x",
        "a/../../x",
        "memory://x",
    ],
)
def test_what_lies_elsewhere_is_refused_by_its_name(
    tmp_path: Path, write: Callable[[Path, str], object], name: str
) -> None:
    with pytest.raises(FormatError) as caught:
        write(tmp_path, name)
    assert repr(name) in str(caught.value)


def test_a_list_of_a_server_names_what_that_server_has(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "1.tar").write_bytes(make_tar([("1.txt", b"one")]))
    (tmp_path / "2.tar").write_bytes(make_tar([("1.txt", b"two")]))
    with serving(tmp_path) as server, serving(tmp_path) as other:

        def listed(*names: str) -> TarShards:
            shards = [{"url": name, "nsamples": 1} for name in names]
            (tmp_path / "data" / "train.json").write_text(json.dumps({"shardlist": shards}))
            return TarShards(f"{server.url}/data/train.json", cache=tmp_path / "cache")

        found = listed("1.tar", f"{server.url}/2.tar", f"{server.url.upper()}/2.tar")
        assert [bytes(each["txt"]) for each in found] == [b"one", b"two", b"two"]
        del found
        host = server.url.partition("://")[2]
        for name in (
            f"{other.url}/2.tar", f"https://{host}/2.tar", f"http://me@{host}/2.tar", f"{server.url}/data/../2.tar",
            f"{server.url}/%2e%2e/2.tar", f"{server.url}/a\\2.tar", f"{server.url}", "file:///2.tar", "../2.tar",
            f"{server.url}/?a b",
        ):  # fmt: skip
            with pytest.raises(FormatError, match="it names"):
                listed(name)
        assert not other.gets
        gc.collect()  # The servers wait for the ends of connections.


@pytest.mark.parametrize(
    ("write", "again"),
    [
        (write_wids, lambda folder: TarShards(folder / "train.json")),
        (write_mds, MDSShards),
        (write_litdata, LitDataShards),
    ],
)
def test_too_many_levels_are_no_json(
    tmp_path: Path, write: Callable[[Path, str], object], again: Callable[[Path], object]
) -> None:
    deep = "[" * 200_000 + "]" * 200_000
    write(tmp_path, "a.tar")
    for file in tmp_path.glob("*.json"):
        file.write_text(deep)
    with pytest.raises(FormatError, match=r"\.json is not JSON: .*(recursion|Stack overflow)"):
        again(tmp_path)


def test_a_list_stands_for_so_many_archives(tmp_path: Path) -> None:
    shards = [{"url": url, "nsamples": 0} for url in ("{0..999999}.tar", "one_more.tar")]
    (tmp_path / "train.json").write_text(json.dumps({"shardlist": shards}))
    with pytest.raises(FormatError, match="more than 1000000 archives"):
        TarShards(tmp_path / "train.json")
