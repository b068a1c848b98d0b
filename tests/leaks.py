"""A pytest plugin that fails a test which leaves a thread, process, file descriptor or shared-memory segment behind.

A process keeps some of these for good once it has used them: the helper processes of multiprocessing, and the thread
pools of numerical libraries. The helpers are recognised by identity. The pools cannot be told from a leaked native
thread, so they are started before the first test, provided that the test module imports the library at its top.
"""

import contextlib
import gc
import importlib
import io
import os
import stat
import sys
import threading
import time
from collections.abc import Generator, Mapping
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

import psutil
import pytest

# For Python, a joined thread is gone a moment earlier than for the kernel. What ends by itself has to get a core first.
# These are seconds of pauses, not of a clock: if the machine stands still for as long, nothing could end meanwhile.
_GRACE_SECONDS = 5.0

# A process that is killed leaves its segments to a helper, which gets around to removing them late on a busy machine.
# The process may be of a test that runs at the same time, so any test would be blamed.
_GRACE_SECONDS_OF_SEGMENTS = 15.0

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - POSIX puts the segments here; it is no temporary file of ours.

# The names of segments that this check's own tests leak on purpose, as another process may run other tests meanwhile.
FORGOTTEN = "spdl-forgotten-"

# Threads of tokio, which obstore starts at its first request, and of jemalloc, which pyarrow starts at some time.
_FOR_GOOD = ("tokio-rt-worker", "jemalloc_bg_thd")

# Fonts, which matplotlib keeps open.
_FONTS = ".ttf"

Resources = Mapping[tuple[object, ...], str]


def _describe_thread(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    where = f", now at {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}" if frame else ""
    return f"{'daemon ' if thread.daemon else ''}thread {thread.name!r}{where}"


def _list_threads() -> Resources:
    by_id = {thread.native_id: thread for thread in threading.enumerate()}
    found: dict[tuple[object, ...], str] = {}
    for entry in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            thread_id, name = int(entry.name), (entry / "comm").read_text().strip()
            python_thread = by_id.get(thread_id)
            if name in _FOR_GOOD:
                continue
            found["thread", thread_id] = _describe_thread(python_thread) if python_thread else f"native thread {name!r}"
    return found


def _list_processes() -> Resources:
    # psutil reads about every process of the machine, and most tests have no child at all.
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return {}
    helpers = {
        getattr(resource_tracker._resource_tracker, "_pid", None),
        getattr(forkserver._forkserver, "_forkserver_pid", None),
    }
    found: dict[tuple[object, ...], str] = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.pid not in helpers and process.ppid() not in helpers:
                zombie = process.status() == psutil.STATUS_ZOMBIE
                command = "ended, nobody waited for it" if zombie else " ".join(process.cmdline())
                found["process", process.pid, process.create_time()] = f"process {process.pid} ({command})"
    return found


def _list_descriptors() -> Resources:
    helpers = {
        getattr(resource_tracker._resource_tracker, "_fd", None),
        getattr(forkserver._forkserver, "_forkserver_alive_fd", None),
    }
    found: dict[tuple[object, ...], str] = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - as few objects as possible between listing and looking.
        # The descriptor that listed the folder is closed by now.
        with contextlib.suppress(FileNotFoundError):
            target = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
            if int(name) not in helpers and not target.endswith(_FONTS):
                found["descriptor", name, target] = f"file descriptor {name} ({target})"
    return found


def _list_segments() -> Resources:
    found: dict[tuple[object, ...], str] = {}
    for entry in _SHARED_MEMORY.iterdir() if _SHARED_MEMORY.is_dir() else ():
        if entry.name.startswith(FORGOTTEN) and entry.name != f"{FORGOTTEN}{os.getpid()}":
            continue
        with contextlib.suppress(FileNotFoundError):
            status = entry.stat()
            # Segments are files. Folders are kept by other processes, or for all of a user's, as that of the pages.
            if status.st_uid == os.getuid() and stat.S_ISREG(status.st_mode):
                found["segment", entry.name, status.st_ino] = f"shared memory {entry} ({status.st_size} bytes)"
    return found


def _is_of_another(segment: tuple[object, ...]) -> bool:
    """Return whether the segment is an unrelated process's: one has it mapped, or had it and has removed it since."""
    own = {process.pid for process in psutil.Process().children(recursive=True)} | {os.getpid()}
    path = os.fsencode(_SHARED_MEMORY / str(segment[1]))
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            if pid not in own and path in Path(f"/proc/{pid}/maps").read_bytes():
                return True
    return segment not in _list_segments()


def _list_resources() -> Resources:
    return {**_list_threads(), **_list_processes(), **_list_descriptors(), **_list_segments()}


def _find_leaks(before: Resources) -> list[str]:
    """Return the resources that are here now but not before, after waiting for those that are about to go."""
    leaks = {key: text for key, text in _list_resources().items() if key not in before}
    waited, pause = 0.0, 0.01
    while leaks:
        only_segments = all(key[0] == "segment" for key in leaks)
        if waited > (_GRACE_SECONDS_OF_SEGMENTS if only_segments else _GRACE_SECONDS):
            break
        # The collector releases objects that only a reference cycle holds, at a time that no test chooses. A thread
        # that is about to end may still hold the cycle at first.
        gc.collect()
        time.sleep(pause)
        waited += pause
        pause = min(2 * pause, 0.2)
        # Resources that appear after the test belong to another process, or to something that the test left behind.
        here = _list_resources()
        leaks = {key: here[key] for key in leaks if key in here}
    return sorted(text for key, text in leaks.items() if not (key[0] == "segment" and _is_of_another(key)))


@pytest.fixture(scope="session")
def started_thread_pools() -> None:
    """Start the pools that numerical libraries keep for the life of the process."""
    importlib.import_module("numpy")
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.ones(1 << 22).sum()
    if "pyarrow" in sys.modules:
        _fill_pools_of_arrow()


class _SlowFile(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        time.sleep(0.002)
        return super().read(size)


def _fill_pools_of_arrow() -> None:
    """Start all threads of both pools: each starts one for a task that comes while all it has are busy."""
    arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    dataset = importlib.import_module("pyarrow.dataset")
    names = [str(number) for number in range(4 * max(arrow.cpu_count(), arrow.io_thread_count()))]
    file = io.BytesIO()
    parquet.write_table(arrow.table({name: [0] for name in names}), file)
    # All parts are asked for at once, and none is there soon.
    at_once = arrow.CacheOptions(hole_size_limit=0, range_size_limit=1, lazy=False)
    options = dataset.ParquetFragmentScanOptions(pre_buffer=True, cache_options=at_once)
    reader = dataset.ParquetFileFormat(default_fragment_scan_options=options)
    reader.make_fragment(_SlowFile(file.getvalue())).to_table(columns=names[::2])
    with parquet.ParquetFile(_SlowFile(file.getvalue()), pre_buffer=False) as opened:
        opened.read()


@pytest.fixture(autouse=True)
def nothing_left_behind(started_thread_pools: None, request: pytest.FixtureRequest) -> Generator[None]:
    """Fail the test if something outlives it."""
    if request.node.get_closest_marker("cuda"):
        # CUDA's driver starts threads and opens files whenever it likes, and keeps them.
        yield
        return
    if request.node.get_closest_marker("ray"):
        # A cluster runs beside the tests of a file: its threads, processes and files come and go.
        yield
        return
    before = _list_resources()
    yield
    leaks = _find_leaks(before)
    if leaks:
        pytest.fail("the test left behind:\n  " + "\n  ".join(leaks), pytrace=False)
