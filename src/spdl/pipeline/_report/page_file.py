"""The files in memory through which processes watch a pipeline: its page, stacks of threads, requests for a trace.

The file of a page has three parts, in this machine's byte order:

* The head, which never changes: `HEAD`, and after it a text in JSON that describes the process and the stages.
* What threads do now, as 64-bit floats that their owners write without a lock: since when a consumer waits, and a row
  for each thread that runs ops, with its number and when it last began to be idle, to pull a source or to run an op.
  The greatest of these times says what it does now.
* Two copies of the counters, which are written in turn: the fields of `Sample`, durations in seconds, and times as
  `time.perf_counter` returns them, a clock that all processes of a machine share. Each copy has its number and a
  checksum. So one of them is whole at any time, even if the process was killed while it wrote.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import mmap
import os
import signal
import stat
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple
from zlib import crc32

from spdl._processes import RenewedLock
from spdl.pipeline._report.page import COLUMNS
from spdl.pipeline._report.sample import PIPELINE_VALUES, SOURCE_VALUES, STAGE_VALUES
from spdl.pipeline._report.threads import stat_fields, status_field
from spdl.pipeline._world import perf_counter

SUFFIX = ".page"
# While it is being made.
NEW = ".new"

# A file system in memory, which each Linux has.
_MEMORY = "/dev/shm"  # noqa: S108 - the folder in it is checked before anything is written.


def page_folder() -> Path:
    """Return the folder, which may not be there yet. It is the same for all processes of a user."""
    name = f"spdl-{os.getuid()}"
    for place in (_MEMORY, os.environ.get("XDG_RUNTIME_DIR")):
        if place and os.access(place, os.W_OK | os.X_OK):
            return Path(place, name)
    return Path(os.environ.get("TMPDIR", "/tmp"), name)  # noqa: S108 - as above.


def is_private(folder: Path) -> bool:
    """Return whether a folder is there and the user's own: others may have made one of that name."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def started_ticks(pid: int) -> int:
    """Return when a process began, in clock ticks since boot; 0 if there is no such process, or if it is unknown."""
    try:
        fields = stat_fields(pid)
        # One that has ended may be there until its parent asks for its status.
        return 0 if fields[0] in (b"Z", b"X") else int(fields[19])
    except (OSError, IndexError, ValueError):
        return 0


def pid_namespace() -> int:
    """Return what the numbers of processes that this one sees belong to; 0 if the system does not say."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


MAGIC = b"SPDLPAGE"
VERSION = 5

# The magic, the version, the text's checksum and length, and the file's length.
HEAD = Struct("=8sIIQQ")
# The frame around the counters: the copy's number and its checksum before them, and the number again after them.
COPY = Struct("=QQ")
_AFTER = 8
_FLOAT = 8


class Layout(NamedTuple):
    """The layout of a page: bytes of text in its head, numbers of sources and stages, and of rows for threads."""

    text: int
    sources: int
    stages: int
    rows: int

    @property
    def columns(self) -> int:
        return COLUMNS + self.sources + self.stages

    @property
    def values(self) -> int:
        return len(PIPELINE_VALUES) + self.sources * len(SOURCE_VALUES) + self.stages * len(STAGE_VALUES)

    @property
    def threads_at(self) -> int:
        """Where what the threads do now begins. It is aligned, so that no float is seen half written."""
        return -(-(HEAD.size + self.text) // 64) * 64

    @property
    def threads(self) -> int:
        return 1 + self.rows * self.columns

    @property
    def copy_size(self) -> int:
        return COPY.size + _FLOAT * self.values + _AFTER

    def copy_at(self, number: int) -> int:
        return self.threads_at + _FLOAT * self.threads + number % 2 * self.copy_size

    @property
    def size(self) -> int:
        return self.copy_at(1) + self.copy_size


def checksum(number: int, payload: bytes) -> int:
    return crc32(payload, number & 0xFFFFFFFF)


class PageFile:
    """The file of a page, mapped into this process: a place for the time since which a consumer waits, and rows.

    The mapping ends with the last row that is not released, not before: a thread would write into what is not there.
    """

    def __init__(self, path: Path, mapped: mmap.mmap, layout: Layout, head: bytes) -> None:
        self._path = path
        self._mapped = mapped
        self._layout = layout
        self._number = 0
        self._pack = Struct(f"={layout.values}d").pack
        floats = memoryview(mapped)[layout.threads_at : layout.copy_at(0)].cast("d")
        self.consumer = floats[:1]
        columns = layout.columns
        self.rows = [floats[at : at + columns] for at in range(1, layout.threads, columns)]
        mapped[: len(head)] = head

    def write(self, values: Sequence[float]) -> None:
        """Write the counters, as `page_values` returns them, in the place of the older of the two copies."""
        self._number = number = self._number + 1
        payload = self._pack(*values)
        at = self._layout.copy_at(number)
        copy = COPY.pack(number, checksum(number, payload)) + payload + COPY.pack(number, 0)[:8]
        self._mapped[at : at + len(copy)] = copy

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()


def make_page_file(name: str, about: Mapping[str, Any], *, rows: int, folder: Path | None = None) -> PageFile | None:
    """Make a page's file, whose name has no suffix yet. None: a pipeline also runs if the system forbids the page."""
    folder = folder or page_folder()
    text = json.dumps({**about, "rows": rows}).encode()
    layout = Layout(len(text), len(about["sources"]), len(about["stages"]), rows)
    path = folder / f"{name}{SUFFIX}"
    # A process that finds the file finds its head complete.
    temporary = folder / f"{name}{NEW}"
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o700)
        if not is_private(folder):
            return None
        temporary.unlink(missing_ok=True)
        head = HEAD.pack(MAGIC, VERSION, checksum(0, text), len(text), layout.size) + text
        page = PageFile(path, _map(temporary, layout.size), layout, head)
        temporary.rename(path)
    except (OSError, AttributeError):
        # No place, no permission, or a system without these functions.
        return None
    return page


def _map(path: Path, size: int) -> mmap.mmap:
    """Make a file of this size that no other user can read, and map it."""
    try:
        with open(path, "x+b", buffering=0, opener=partial(os.open, mode=0o600)) as file:
            # The lock lasts as long as the mapping. By it readers can tell that the process is alive, even where its
            # number means nothing.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Writing into memory that the file system does not have would end the process.
            os.posix_fallocate(file.fileno(), 0, size)
            return mmap.mmap(file.fileno(), size)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


REQUEST = ".record"


def request_path(pid: int, started_ticks: int, namespace: int, folder: Path | None = None) -> Path:
    """Return where a process is asked for a trace. Containers that share the folder may have the same numbers."""
    return (page_folder() if folder is None else folder) / f"{pid}-{started_ticks}-{namespace}{REQUEST}"


def is_left(path: Path) -> bool:
    """Return whether the process that asked there was killed: there is no listener."""
    import socket  # noqa: PLC0415 - rarely needed, and large.

    with socket.socket(socket.AF_UNIX) as probe:
        # If many wait already, there is a listener.
        probe.settimeout(0.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return not os.path.lexists(path)
    return False


class _Answer:
    function: Callable[[str], None] | None = None


_ANSWER = _Answer()


def answer_by(function: Callable[[str], None]) -> None:
    """Call a function, with the path, as long as this process is asked. It is called often, and under a lock."""
    _ANSWER.function = function


def look_for_request(path: str) -> None:
    """Look whether this process is asked. It takes a microsecond or two, and is done where the counters are written."""
    if os.access(path, os.F_OK) and (answer := _ANSWER.function) is not None:
        answer(path)


STACKS = ".stacks"

_ENABLED: set[int] = set()


def enable_stacks() -> bool:
    r"""Let ``spdl stack PID`` show the stacks of this process, also where ``py-spy`` is not installed or not permitted.

    A signal that nothing else in this process uses then has all threads' stacks written into a file in memory, which
    only this user can read. `faulthandler` does that without the GIL and without a thread: it works while the process
    hangs. It costs nothing until it is asked for. ``SPDL_STACKS=1`` in the environment does the same when the first
    pipeline starts. A process that is forked calls it again, or has that variable.

    Returns:
        Whether it can be asked for: not on systems other than Linux, and not if there is no place for the file.

    Example:
        >>> import subprocess, sys
        >>> program = "from spdl.observe import enable_stacks; print(enable_stacks())"
        >>> subprocess.check_output([sys.executable, "-c", program])
        b'True\n'
    """
    pid = os.getpid()
    # A forked process has its own file.
    if pid in _ENABLED:
        return True
    folder = page_folder()
    try:
        # One that the program uses for something else keeps its meaning.
        caught = caught_signals(pid)
        # The real-time signals, without those at both ends, which debuggers and C libraries like.
        signals = range(signal.SIGRTMAX - 1, signal.SIGRTMIN, -1)
        number = next(each for each in signals if not caught >> (each - 1) & 1)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o700)
        if not is_private(folder):
            return False
        _register(folder / f"{pid}{STACKS}", pid, number)
    except (ImportError, OSError, AttributeError, RuntimeError, StopIteration):
        return False
    _ENABLED.add(pid)
    return True


def caught_signals(pid: int) -> int:
    """Return which signals a process handles: bit 0 is signal 1. Raises an OSError if the system does not say."""
    try:
        return int(status_field(pid, "SigCgt"), 16)
    except (IndexError, ValueError):
        raise OSError("the system does not say which signals are caught") from None


def _register(path: Path, pid: int, number: int) -> None:
    import faulthandler  # noqa: PLC0415 - not to be had in sub-interpreters.

    path.unlink(missing_ok=True)
    # Nobody sends the signal before it has a handler.
    about = {
        "pid": pid,
        "started_ticks": started_ticks(pid),
        "pid_namespace": pid_namespace(),
        "signal": number,
    }
    # It stays open for as long as the process runs.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        faulthandler.register(number, descriptor, all_threads=True)
        os.write(descriptor, json.dumps(about).encode() + b"\n")
    except BaseException:
        os.close(descriptor)
        path.unlink()
        raise
    atexit.register(_remove, path, pid)


def _remove(path: Path, pid: int) -> None:
    if os.getpid() == pid:
        path.unlink(missing_ok=True)


# How long the page of a killed process is kept, counted from the last time that it wrote its counters.
_KEPT_SECONDS = 600

# A pipeline that starts waits for the sweep: it looks at that many files at most, and others look at the rest.
_MOST = 256
_MOST_HEAD = 1 << 20

# The first of the counters.
_NOW = Struct("=d")


def sweep(folder: Path | None = None) -> int:
    """Remove what killed processes of this user have left in the folder of the pages; return how many files.

    Processes of other containers that share the folder are told apart by the namespace of their numbers. Whether one
    of these has ended is known by the lock that it has on its page.
    """
    folder = page_folder() if folder is None else folder
    removed = 0
    if is_private(folder):
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in islice(entries, _MOST):
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
                    removed += _remove_if_left(entry)
    return removed


def _remove_if_left(entry: os.DirEntry[str]) -> bool:
    if entry.name.endswith(REQUEST):
        left = is_left(Path(entry.path))
        if left:
            Path(entry.path).unlink()
        return left
    if not entry.name.endswith((SUFFIX, STACKS, NEW)):
        return False
    # A pipe of that name would be waited for otherwise.
    descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not _is_left(descriptor, entry.name):
            return False
        # A new process with the same number may have made another one of that name.
        found, now = os.fstat(descriptor), Path(entry.path).lstat()
        if (found.st_dev, found.st_ino) != (now.st_dev, now.st_ino):
            return False
        Path(entry.path).unlink()
    finally:
        os.close(descriptor)
    return True


def _is_left(descriptor: int, name: str) -> bool:
    if name.endswith(NEW):
        # The thread that makes it has locked it since a moment after it was there, or has a number here.
        return not started_ticks(int(name.partition("-")[0])) and is_unlocked(descriptor)
    is_page = name.endswith(SUFFIX)
    about = _page_head(descriptor) if is_page else json.loads(os.pread(descriptor, 1024, 0).partition(b"\n")[0])
    if about is None:
        # It is another kind of file, or damaged: its owner is unknown.
        return False
    started = int(about["started_ticks"])
    if started and int(about["pid_namespace"]) == pid_namespace():
        ended = started_ticks(int(about["pid"])) != started
    else:
        ended = is_page and is_unlocked(descriptor)
    return ended and not (is_page and perf_counter() - _written_at(descriptor, about) < _KEPT_SECONDS)


def _written_at(descriptor: int, about: dict[str, Any]) -> float:
    """Return when the counters of a page were written, 0 if they never were. Damage makes it another time."""
    layout = Layout(int(about["length"]), len(about["sources"]), len(about["stages"]), int(about["rows"]))
    copies = [os.pread(descriptor, _NOW.size, layout.copy_at(number) + COPY.size) for number in (0, 1)]
    return max((_NOW.unpack(copy)[0] for copy in copies if len(copy) == _NOW.size), default=0.0)


def _page_head(descriptor: int) -> dict[str, Any] | None:
    """Return what a page of any version says about its process."""
    head = os.pread(descriptor, HEAD.size, 0)
    if len(head) < HEAD.size:
        return None
    magic, _, crc, length, _ = HEAD.unpack(head)
    if magic != MAGIC or length > _MOST_HEAD:
        return None
    text = os.pread(descriptor, length, HEAD.size)
    return {**json.loads(text), "length": length} if checksum(0, text) == crc else None


def is_unlocked(descriptor: int) -> bool:
    """Return whether no process has a page locked for itself."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return True


_ENGINES: weakref.WeakSet[Any] = weakref.WeakSet()
_ENGINES_LOCK = RenewedLock()


def add_engine(engine: Any) -> None:
    with _ENGINES_LOCK:
        _ENGINES.add(engine)


def engines() -> list[Any]:
    with _ENGINES_LOCK:
        return list(_ENGINES)
