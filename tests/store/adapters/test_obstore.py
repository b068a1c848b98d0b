"""What obstore needs: its threads, its errors, credentials that expire."""

from __future__ import annotations

import datetime as dt
import importlib.util
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.store.s3_server import needs_s3, obstore_config, running_s3

from spdl.source import Files
from spdl.store import ObstoreStore, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = needs_s3

CONTENT = bytes(i * i % 251 for i in range(100_000))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_s3("bucket", {f"{number}": CONTENT[number:] for number in range(50)}) as url:
        store = ObstoreStore("s3://bucket", config=obstore_config(url))
        store.get("1")  # Starts obstore's threads, which live as long as the process.
        store.close()
        yield url


@pytest.fixture
def store(server: str) -> Iterator[ObstoreStore]:
    store = ObstoreStore("s3://bucket", config=obstore_config(server), timeout=30)
    yield store
    store.close()


def test_threads_share_it_and_all_is_counted(store: ObstoreStore) -> None:
    paths = [str(number) for number in range(50)] * 4
    with ThreadPoolExecutor(8) as pool:
        for path, content in zip(paths, pool.map(store.get, paths), strict=True):
            assert bytes(content) == CONTENT[int(path) :]
    found = store.statistics()
    assert (found.requests, found.answers, found.in_flight) == (200, 200, 0)
    assert found.bytes == sum(len(CONTENT) - int(path) for path in paths)


def test_a_call_that_nobody_can_end_is_made_by_no_caller(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start, watching = threading.Thread.start, list[threading.Thread]()

    def start_one(thread: threading.Thread) -> None:
        if watching:
            raise RuntimeError("can't start new thread")
        watching.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    store = ObstoreStore("s3://bucket", config=obstore_config(server), timeout=0.5)
    with pytest.raises(StoreError, match=r"3 in ObstoreStore.*: too many threads wait"):
        store.get("3")
    monkeypatch.undo()
    assert bytes(store.get("3")) == CONTENT[3:]
    store.close()


def test_a_copy_is_another_store(store: ObstoreStore) -> None:
    copy = pickle.loads(pickle.dumps(store))  # noqa: S301 - our own.
    assert bytes(copy.get("3")) == CONTENT[3:]
    copy.close()


def test_marks_of_folders_are_no_objects(server: str) -> None:
    del server  # Its threads are there already.
    objects = {"a/": b"", "a/1": b"1", "a/empty": b"", "a/b/": b"", "b": b"22", "b/": b"", "b/x": b"x", "c/": b""}
    with running_s3("bucket", objects) as url:
        for root, paths in (
            ("s3://bucket", ["a/1", "a/empty", "b", "b/x"]),
            ("s3://bucket/a", ["1", "empty"]),
        ):
            inner = ObstoreStore(root, config=obstore_config(url))
            assert [entry.path for entry in inner.list("")] == paths
            assert all(len(memoryview(inner.get(entry.path))) == entry.size for entry in inner.list(""))
            inner.close()
        obstore = ObstoreStore("s3://bucket", config=obstore_config(url))
        assert [entry.path for entry in obstore.list("b")] == ["b", "b/x"]
        assert [entry.path for entry in obstore.list("a/b")] == []
        assert [record.path for record in Files("a", store=obstore)] == ["a/1", "a/empty"]
        obstore.close()


def test_it_goes_on_after_close(store: ObstoreStore) -> None:
    store.get("1")
    store.close()
    store.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "spdl-obstore"]
    assert bytes(store.get("2")) == CONTENT[2:]


def _read_in_child(store: ObstoreStore, answers: Any) -> None:
    answers.put(bytes(store.get("4")))


def test_a_forked_process_says_what_to_do(store: ObstoreStore) -> None:
    store.get("1")
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(50)
        try:
            store.get("1")
        except StoreError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    assert "obstore was used before this process was forked" in said
    assert "Start processes by 'spawn' or 'forkserver'" in said


def test_a_spawned_process_reads(store: ObstoreStore) -> None:
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    process = context.Process(target=_read_in_child, args=(store, answers))
    process.start()
    assert answers.get() == CONTENT[4:]
    process.join()
    answers.close()
    process.close()


def test_credentials_that_expire_are_renewed(server: str) -> None:
    asked: list[int] = []

    def provide() -> dict[str, object]:
        asked.append(len(asked))
        # The first two are over as soon as they are given.
        until = dt.datetime.now(dt.UTC) + dt.timedelta(hours=len(asked) > 2)
        return {"access_key_id": "key", "secret_access_key": "secret", "token": None, "expires_at": until}

    config = obstore_config(server)
    del config["access_key_id"], config["secret_access_key"]
    store = ObstoreStore("s3://bucket", config={**config, "credential_provider": provide})
    try:
        counts = []
        for _ in range(5):
            assert bytes(store.get("5")) == CONTENT[5:]
            counts.append(len(asked))
        assert counts == [1, 2, 3, 3, 3]
    finally:
        store.close()


def test_a_server_that_is_not_there() -> None:
    store = ObstoreStore("s3://bucket", config=obstore_config("http://127.0.0.1:9"), timeout=2)
    with pytest.raises(StoreError, match=r"x in ObstoreStore\('s3://bucket'\): .* \(attempt \d+, after"):
        store.get("x")
    with pytest.raises(StoreError, match=r"the list of all in ObstoreStore"):
        list(store.list(""))
    assert store.statistics().broken > 0
    store.close()


def test_an_endpoint_without_encryption_has_to_be_allowed(server: str) -> None:
    config = {name: value for name, value in obstore_config(server).items() if name != "client_options"}
    store = ObstoreStore("s3://bucket", config=config, timeout=30)
    with pytest.raises(StoreError, match=r"config=\{'client_options': \{'allow_http': True\}\} allows it"):
        store.get("1")
    assert store.statistics().retries == 0, "it is not repeated"
    store.close()


@pytest.mark.usefixtures("no_pauses", "server")
def test_obstore_store_says_that_it_has_found_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    config = {"metadata_endpoint": "http://127.0.0.1:9", "region": "us-east-1", "client_options": {"allow_http": True}}
    store = ObstoreStore("s3://bucket", config=config)
    with pytest.raises(StoreError, match=r"No credentials were found.*set AWS_ACCESS_KEY_ID.*AWS_SKIP_SIGNATURE=true"):
        store.get("x")
    store.close()


def test_settings_that_are_none() -> None:
    with pytest.raises(StoreError, match=r"s3://bucket: .*nonsense"):
        ObstoreStore("s3://bucket", config={"nonsense": "1"})


def test_the_package_is_named_if_it_is_missing() -> None:
    program = (
        "import sys; sys.modules['obstore'] = None\nfrom spdl.store import open_store\n"
        "try: open_store('s3://bucket')\nexcept ModuleNotFoundError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert importlib.util.find_spec("obstore") is not None
    assert done.stdout == "reading s3://bucket needs the package obstore: pip install 'spdl-turbo[obstore]'\n"
