"""No secret of an address or a header is in what is raised, logged, counted or traced, whichever call fails and how."""

from __future__ import annotations

import importlib
import inspect
import socket
import socketserver
import subprocess
import sys
import threading
import traceback
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.io.inside import forget_stores

from spdl.dataloader import AudioLoader, ClipLoader, ImageLoader
from spdl.io import LoadError, load_npy
from spdl.observe import record_trace
from spdl.pipeline import PipelineBuilder
from spdl.source import ImageList, MediaList
from spdl.store import FsspecStore, HTTPStore, open_store
from spdl.store._identity import SecretAddress

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator
    from pathlib import Path

SECRET = "S3cr3tOfMine"  # noqa: S105 - none at all.

# What takes paths of this machine alone, or folders beside the address.
LOCAL = {
    "store.LocalStore root", "store.CachedStore directory", "source.LocalDirectory root", "source.ImageNet root",
    "source.Files manifest", "source.JsonLines cache", "source.TarShards cache", "io.NpzFile data",
}  # fmt: skip
# Those need a GPU before they read anything.
GPU = {"io.decode_image_nvjpeg src", "io.load_image_batch_nvjpeg srcs", "io.streaming_load_video_nvdec src"}
# What else a call needs.
NEEDED: dict[str, dict[str, Any]] = {
    "io.load_image_batch srcs": {"width": 8, "height": 8},
    "io.load_video_batch srcs": {"num_frames": 1, "width": 8, "height": 8},
    "io.load_audio_batch srcs": {"num_frames": 8},
    "dataloader.ImageShards shards": {"batch_size": 1, "width": 8, "height": 8},
    "source.TarShards index": {"shards": ["a.tar"]},
}
MARKS = ("PathLike", "ImageInput", "ArrayInput", "TarInput", "Headers")


def calls() -> Iterator[tuple[str, Callable[..., Any], str, str]]:
    """Yield what takes an address or headers: by what the signatures say, so that a new one is here, too."""
    for module in ("io", "source", "store", "dataloader"):
        package = importlib.import_module(f"spdl.{module}")
        for name in package.__all__:
            function = getattr(package, name)
            try:
                parameters = inspect.signature(function).parameters.values()
            except (TypeError, ValueError):  # Of a native type, which takes nothing.
                continue
            for each in parameters:
                annotation = str(each.annotation)
                known = f"{module}.{name} {each.name}"
                takes = any(mark in annotation for mark in MARKS) or each.name in ("url", "base_url")
                if takes and known not in LOCAL | GPU:
                    yield known, function, each.name, annotation


CALLS = list(calls())
# Packages whose threads stay for the life of the process.
APART = [each for each in CALLS if each[0] in ("store.FsspecStore url", "store.ObstoreStore url")]


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while (line := self.rfile.readline()) not in (b"", b"\r\n"):
            head = [line]
            while (more := self.rfile.readline()) not in (b"", b"\r\n"):
                head.append(more)
            body, length = b"".join(head), 0
            status = b"200 OK"
            if b"/refuse" in line:
                status = b"403 Forbidden"
            elif b"/lost" in line:
                status = b"404 Not Found"
            elif b"/cut" in line:
                length = 100
            elif b"/away" in line:
                status = b"302 Found\r\nLocation: ftp://elsewhere/a?" + line.split(b"?")[-1].split(b" ")[0]
            else:
                body = b"<html>no!"
            self.wfile.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status, len(body) + length))
            if not line.startswith(b"HEAD"):
                self.wfile.write(body)
            if length:
                return


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with _Server(("127.0.0.1", 0), _Handler) as made:
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{made.server_address[1]}"
        made.shutdown()


@pytest.fixture(scope="module")
def closed() -> str:
    with socket.create_server(("127.0.0.1", 0)) as made:
        return f"127.0.0.1:{made.getsockname()[1]}"


@pytest.fixture(autouse=True)
def _new_stores(no_pauses: None) -> Iterator[None]:
    yield
    forget_stores()


@pytest.fixture
def ways(server: str, closed: str) -> dict[str, str]:
    query = f"X-Amz-Signature={SECRET}%2Fx&se=1"
    return {
        "refused connection": f"http://{closed}/a.tar?{query}",
        "403 that repeats": f"http://{server}/refuse/a.tar?{query}",
        "cut body": f"http://{server}/cut/a.tar?{query}",
        "no array": f"http://{server}/junk/a.tar?{query}",
        "list": f"http://{server}/junk/a.json?{query}",
        "missing": f"http://{server}/lost/{{a,b}}.tar?{query}",
        "other place": f"http://{server}/away/a.tar?{query}",
        "port": f"http://{server.partition(':')[0]}:99999/a.tar?{query}",
        "space": f"http://{server}/my data?{query}",
        "no host": f"http://?{query}",
        "brackets": f"http://[::1/a?{query}",
        "user": f"http://me:{SECRET}@{server}/a.tar",
        "password with a slash": f"http://me:pa/{SECRET}@{server}/a.tar",
        "characters": f"http://me:{SECRET}@a\u2100b/a.tar",
        "no scheme": f"nosuch://b/a.tar?{query}",
        "fragment": f"http://{server}/refuse/a.tar#{SECRET}",
    }


def everything(error: BaseException) -> str:
    """Return all that a traceback, a debugger or a report shows of an error and of what it came from."""
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and each not in seen:
            seen.append(each)
            waiting += [each.__cause__, each.__context__]
    texts = [f"{each} {each!r} {getattr(each, '__notes__', '')} {getattr(each, 'path', '')}" for each in seen]
    return "\n".join([*texts, *traceback.format_exception(error)])


def use(made: Any) -> None:
    """Read what a call has made, if it reads when it is asked."""
    if isinstance(made, FsspecStore | HTTPStore) or hasattr(made, "get_ranges"):
        for read in (made.get, made.size, lambda path: made.get_ranges(path, [0], [1])):
            try:
                read("a.tar")
            finally:
                assert SECRET not in repr(made)
                assert SECRET not in repr(made.statistics() if hasattr(made, "statistics") else None)
    elif hasattr(made, "__getitem__") and not isinstance(made, tuple):
        made[0]
    elif hasattr(made, "__next__"):
        next(made)


@pytest.mark.parametrize(("known", "function", "argument", "annotation"), [each for each in CALLS if each not in APART])
def test_no_call_shows_a_secret(  # noqa: PLR0917 - a table.
    known: str,
    function: Callable[..., Any],
    argument: str,
    annotation: str,
    ways: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    failed = 0
    for way, url in ways.items():
        given: Any = [url] if "Iterable" in annotation else url
        arguments = {argument: given, **NEEDED.get(known, {})}
        if argument == "headers":
            arguments = {"base_url": url.partition("?")[0], "headers": {"Authorization": f"Bearer {SECRET}"}}
        told = ""
        with warnings.catch_warnings(record=True) as caught:
            try:
                use(function(**arguments))
            except Exception as error:  # noqa: BLE001 - whichever there is.
                failed += 1
                told = everything(error)
        assert SECRET not in told, way
        assert SECRET not in "".join(str(each.message) for each in caught), way
    assert SECRET not in caplog.text
    assert failed


@pytest.mark.parametrize("name", [each[1].__name__ for each in APART])
def test_no_package_shows_a_secret(name: str, ways: dict[str, str]) -> None:
    program = (
        "import sys\n"
        "from spdl import store\n"
        "from tests.store.open.test_secrets import everything, use\n"
        "for url in sys.argv[2:]:\n"
        "    try: use(getattr(store, sys.argv[1])(url))\n"
        "    except Exception as error: print(everything(error))\n"
    )
    command = [sys.executable, "-c", program, name, *ways.values()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.count("Traceback") >= len(ways)
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": SECRET.encode()},
        {"Authorization": f"{SECRET}\n"},
        {f"Bearer {SECRET}": "x"},
        {SECRET: f"é {SECRET}"},
        {b"x": SECRET},
        [("Authorization", SECRET)],
        SECRET,
        lambda: {"Authorization": f"Bearer {SECRET}"},
        lambda: {"Authorization": SECRET.encode()},
        lambda: [("Authorization", SECRET)],
    ],
)
def test_headers_that_are_none_are_not_shown(server: str, headers: Any) -> None:
    with pytest.raises((TypeError, ValueError, OSError)) as caught:
        HTTPStore(f"http://{server}/refuse", headers=headers).get("a")
    assert SECRET not in everything(caught.value)


def test_a_pipeline_shows_no_secret(ways: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pipeline = PipelineBuilder().add_source(list(ways.values())).pipe(load_npy).add_sink().build(num_threads=1)
    with (
        record_trace(tmp_path / "trace"),
        pytest.raises((RuntimeError, ExceptionGroup)) as caught,
        pipeline.auto_stop(),
    ):
        list(pipeline)
    assert SECRET not in everything(caught.value)
    assert "load_npy" in caplog.text
    assert SECRET not in caplog.text
    assert SECRET not in repr(pipeline.statistics())
    assert SECRET.encode() not in (tmp_path / "trace").read_bytes()


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize(
    "load",
    [
        lambda urls, **options: ImageLoader(ImageList([(url, 0) for url in urls]), size=8, **options),
        lambda urls, **options: AudioLoader(
            MediaList([(url, None, 0) for url in urls]), sample_rate=8000, seconds=1, **options
        ),
        lambda urls, **options: ClipLoader(
            MediaList([(url, None, 0) for url in urls]), num_frames=1, size=8, **options
        ),
    ],
)
def test_a_loader_shows_no_secret(
    load: Callable[..., Any], on_error: str, ways: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    for url in ways.values():
        loader = load([url], batch_size=1, output="numpy", on_error=on_error)
        with pytest.raises((LoadError, RuntimeError, ValueError, OSError)) as caught:
            next(iter(loader))
        assert SECRET not in everything(caught.value)
        assert SECRET not in repr(loader.failures)
        assert SECRET not in repr(loader.statistics())
    assert SECRET not in caplog.text


def test_what_is_shown_of_a_store_names_its_place() -> None:
    assert repr(open_store(f"https://host/data?token={SECRET}")) == "HTTPStore('https://host/data')"


TEXTS = st.text("abcXYZ/?#&=:@ %+\"'<>\n\u00e9", min_size=4, max_size=12).map(lambda text: f"{text}{SECRET}")


@given(TEXTS, st.sampled_from(["query", "value", "password", "header"]), st.randoms(use_true_random=False))
def test_a_secret_is_hidden_in_any_text(secret: str, where: str, chance: random.Random) -> None:
    url, headers = "https://host/data", {}
    if where == "header":
        headers = {"X-Key": secret}
    elif where == "password":
        secret = secret.replace("@", "").replace("?", "").replace("#", "").replace("/", "").replace("[", "").strip()
        url = f"https://me:{secret}@host/data"
    else:
        secret = secret.replace("#", "").replace("&", "") if where == "value" else secret.replace("#", "")
        url = f"{url}?{'a=' if where == 'value' else ''}{secret}"
    address = SecretAddress(url, headers)
    words = ["error", secret, url, f"GET /data?{secret} HTTP/1.1", f"Authorization: {secret}", "again"]
    chance.shuffle(words)
    for text in (f"{address}", f"{address!r}", address.hide(" ".join(words))):
        assert SECRET not in text


def test_an_error_with_many_causes_is_looked_at_once(server: str) -> None:
    def headers() -> dict[str, str]:
        error: Exception = KeyError("token")
        for number in range(60):
            following = ValueError(number)
            following.__cause__ = following.__context__ = error
            error = following
        raise error

    store = HTTPStore(f"http://{server}", headers=headers)
    with pytest.raises(ValueError, match="59"):
        store.get("x")
    store.close()
