"""Rules of transport that no call of the user shows.

How much memory a container has left, what the memory that processes share allows, how arrays look to an interpreter
that has no numpy, and what is left of a channel or an interpreter that could not be opened.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from errno import EMFILE
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.pipeline.support import wait_until

from spdl.pipeline._elsewhere import memory as memory_module
from spdl.pipeline._elsewhere import worker_process
from spdl.pipeline._elsewhere.item_pickling import ItemPickler, reducers_from_interpreter, reducers_to_interpreter
from spdl.pipeline._elsewhere.lane import ChannelClosed
from spdl.pipeline._elsewhere.memory import AnonymousMemory, available_memory
from spdl.pipeline._elsewhere.worker_channel import ParentEnd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    Machine = Callable[[str, str, dict[str, str]], None]

# ---- how much memory is left: on file systems modelled on those of the kernel, and on this one's ----

GB = 1 << 30
VERSION_2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
VERSION_1 = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory"
CONTAINER_OF_VERSION_1 = "35 31 0:32 /docker/0123 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory"
NONE_OF_VERSION_1 = "9223372036854771712"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a function that makes a file system with 8 GiB available: mounts, groups, and the files of groups."""

    def make(mounts: str, groups: str, files: dict[str, str]) -> None:
        everything = {
            "proc/meminfo": f"MemTotal: {16 * GB // 1024} kB\nMemAvailable: {8 * GB // 1024} kB\n",
            "proc/self/mountinfo": mounts + "\n",
            "proc/self/cgroup": groups + "\n",
            **{f"sys/fs/cgroup/{name}": text for name, text in files.items()},
        }
        for name, text in everything.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

    monkeypatch.setattr(memory_module, "_ROOT", f"{tmp_path}/")
    return make


def test_available_memory_of_groups_of_version_2(machine: Machine) -> None:
    machine(
        VERSION_2,
        "0::/job/task",
        {
            "job/memory.max": f"{3 * GB}\n",
            "job/memory.current": f"{2 * GB}\n",
            "job/memory.stat": f"anon 5\nfile 9\ninactive_file {GB // 2}\n",
            "job/task/memory.max": "max\n",
            "job/task/memory.current": f"{GB}\n",
        },
    )
    assert available_memory() == GB + GB // 2


@pytest.mark.parametrize(
    ("mount", "group", "folder"),
    [
        (VERSION_1, "4:memory:/docker/0123", "memory/docker/0123"),
        (VERSION_1, "4:memory:/docker/0123", "memory/docker"),
        (CONTAINER_OF_VERSION_1, "4:memory:/docker/0123", "memory"),
    ],
)
def test_available_memory_of_groups_of_version_1(machine: Machine, mount: str, group: str, folder: str) -> None:
    machine(
        mount,
        f"9:cpu:/\n{group}\n0::/",
        {
            f"{folder}/memory.limit_in_bytes": f"{2 * GB}\n",
            f"{folder}/memory.usage_in_bytes": f"{GB}\n",
            f"{folder}/memory.stat": f"inactive_file 7\ntotal_cache 9\ntotal_inactive_file {GB // 4}\n",
        },
    )
    assert available_memory() == GB + GB // 4


def test_available_memory_without_a_limit(machine: Machine) -> None:
    files = {"memory/memory.limit_in_bytes": NONE_OF_VERSION_1, "memory/memory.usage_in_bytes": str(5 * GB)}
    machine(f"{VERSION_1}\n{VERSION_2}", "4:memory:/\n0::/", files)
    assert available_memory() == 8 * GB


@pytest.mark.parametrize("text", ["", "nonsense", "12 24", "-"])
def test_available_memory_where_files_say_nothing(machine: Machine, text: str) -> None:
    machine(VERSION_2, "0::/", {"memory.max": text, "memory.current": text, "memory.stat": "\n\n"})
    assert available_memory() == 8 * GB


@pytest.mark.parametrize("text", ["", "\n\n", "inactive_file", "inactive_file many\n"])
def test_available_memory_where_a_group_does_not_tell_its_files(machine: Machine, text: str) -> None:
    files = {"memory.max": str(2 * GB), "memory.current": str(GB), "memory.stat": text}
    machine(VERSION_2, "0::/", files)
    assert available_memory() == GB


def test_available_memory_where_more_is_used_than_allowed(machine: Machine) -> None:
    machine(VERSION_2, "0::/a", {"a/memory.max": str(GB), "a/memory.current": str(GB + 4096)})
    assert available_memory() == 0


def test_available_memory_of_a_machine_that_shows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "_ROOT", f"{tmp_path}/")
    assert available_memory() == sys.maxsize


@pytest.fixture
def group() -> Iterator[Path]:
    """Make a group of version 1 with a limit of 256 MiB, where this machine has them and lets us."""
    own = next((line.split(":", 2)[2] for line in _own_groups() if line.split(":")[1] == "memory"), None)
    if own is None:
        pytest.skip("this machine has no control groups of version 1 for memory")
    folder = Path(f"/sys/fs/cgroup/memory{own}/spdl_test_{os.getpid()}")
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(256 << 20))
    except OSError as error:
        with suppress(OSError):
            folder.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    yield folder
    folder.rmdir()


def _own_groups() -> list[str]:
    try:
        return Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


PROGRAM = """
import os, sys
from pathlib import Path
Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
from spdl.pipeline._elsewhere.memory import AnonymousMemory
memory = AnonymousMemory(1 << 30)
memory.back(0, 64 << 20)
try:
    memory.back(0, 1 << 30)
except OSError as error:
    print(error)
"""


def test_available_memory_of_a_real_group_of_version_1(group: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, group], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Less than 1,073,741,824 bytes of memory are left" in done.stdout


# ---- the memory that processes share ----


def test_memory_can_neither_be_cut_off_by_a_peer_nor_get_other_rules() -> None:
    fcntl = pytest.importorskip("fcntl")
    memory = AnonymousMemory(1 << 20)
    memory.back(0, 1 << 20)
    view = memoryview(memory.map())
    view[-1] = 7
    for size in (0, 4096, 1 << 21):
        with pytest.raises(PermissionError):
            os.ftruncate(memory.fd, size)
    with pytest.raises(PermissionError):
        fcntl.fcntl(memory.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    assert view[-1] == 7
    view.release()
    memory.close()


def test_memory_that_the_machine_lacks_is_an_error() -> None:
    memory = AnonymousMemory(1 << 44)
    with pytest.raises(OSError, match="Less than 17,592,186,044,416 bytes of memory are left"):
        memory.back(0, 1 << 44)
    assert not os.fstat(memory.fd).st_blocks
    memory.close()


def test_memory_that_is_given_up_is_gone() -> None:
    memory = AnonymousMemory(1 << 24)
    memory.back(0, 1 << 24)
    assert os.fstat(memory.fd).st_blocks * 512 == 1 << 24
    memory.give_up(1 << 20, 1 << 24)
    assert os.fstat(memory.fd).st_blocks * 512 == 1 << 20
    memory.close()


# ---- arrays in an interpreter without numpy, and memoryviews in one that has it ----

# Interpreters are of later Pythons.
HALVES = pytest.param("f2", marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="memoryview has no halves"))
KINDS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", HALVES, "f4", "f8", "longlong", "ulonglong"]
BIG: Any = np.arange(6000.0).reshape(60, 100)


def pickled_with(item: Any, reducers: Any) -> tuple[bytes, list[bytearray]]:
    pickler = ItemPickler(reducers=reducers)
    try:
        pickler.pickle(item)
        return b"".join(pickler.pieces), [bytearray(it) for it in pickler.buffers]
    finally:
        # Whoever pickles does so: Python 3.11 crashes where the garbage collector finds a memoryview and its buffer.
        pickler.clear()


def cross(item: Any, reducers: Any) -> Any:
    """Return an item as the other side has it. As in a channel, its memory is writable."""
    pickled, buffers = pickled_with(item, reducers)
    return pickle.loads(pickled, buffers=buffers)  # noqa: S301 - from here.


def there_and_back(array: Any) -> tuple[memoryview, Any]:
    view = cross(array, reducers_to_interpreter)
    return view, cross(view, reducers_from_interpreter)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 4), (2, 3, 400)])
def test_views_keep_elements_and_shape(kind: str, shape: tuple[int, ...]) -> None:
    array = (np.arange(np.prod(shape, dtype=int)) % 100).astype(kind).reshape(shape)
    view, back = there_and_back(array)
    assert type(view) is memoryview
    assert not view.readonly
    assert view.shape == shape
    assert np.asarray(view).tolist() == array.tolist()
    assert type(back) is np.ndarray
    assert back.flags.writeable
    np.testing.assert_array_equal(back, array, strict=True)


@pytest.mark.parametrize(
    "array",
    [
        BIG.T,
        BIG[::2, ::-3],
        np.asfortranarray(BIG),
        np.broadcast_to(np.float32(3), (5, 900)),
        BIG.astype(">i4"),
        BIG[:2, :3].astype(">f4"),
    ],
    ids=["transposed", "gaps", "columns first", "repeated", "big-endian", "small and big-endian"],
)
def test_views_are_copies_of_what_lies_otherwise(array: Any) -> None:
    view, back = there_and_back(array)
    assert view.c_contiguous
    assert np.asarray(view).tolist() == array.tolist()
    np.testing.assert_array_equal(back, array)
    assert back.dtype == array.dtype.newbyteorder("=")


def test_views_of_large_content_stay_out_of_the_pickle() -> None:
    for item, reducers in ((BIG, reducers_to_interpreter), (memoryview(BIG), reducers_from_interpreter)):
        pickled, buffers = pickled_with(("label", item), reducers)
        assert len(pickled) < 300
        assert buffers == [BIG.tobytes()]


def test_views_can_be_changed_where_arrays_cannot() -> None:
    fixed = np.arange(4)
    fixed.flags.writeable = False
    view, back = there_and_back(fixed)
    view[0] = back[0] = 9
    array = cross(memoryview(b"abc"), reducers_from_interpreter)
    array += 1
    assert array.tobytes() == b"bcd"


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(3, complex),
        np.zeros(3, [("x", "i4"), ("y", "f4")]),
        np.zeros(3, "M8[s]"),
        np.array(["a"], object),
        np.zeros(3, "S3"),
        np.zeros(3, "U3"),
        np.zeros((0, 4)),
    ],
    ids=lambda it: str(it.dtype),
)
def test_views_of_other_arrays_are_refused_with_a_remedy(array: Any) -> None:
    with pytest.raises(TypeError, match=r"(another interpreter|or interpreter).*[Ss]end"):
        cross([array], reducers_to_interpreter)


def test_views_of_other_formats_are_refused_with_a_remedy() -> None:
    with pytest.raises(TypeError, match=r"format 'c' cannot be sent.*memoryview.cast"):
        cross(memoryview(b"abc").cast("c"), reducers_from_interpreter)


# ---- what could not be opened, and what is closed twice ----


class Fake:
    """An interpreter, of which every Python can make one, that only knows whether it was closed."""

    def __init__(self) -> None:
        self.closed = False

    def prepare_main(self, **_: Any) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class CannotStart:
    """A thread that the system has no room for."""

    def __init__(self, **_: Any) -> None:
        pass

    def start(self) -> None:
        raise RuntimeError("can't start new thread")


def no_pipe() -> Any:
    raise OSError(EMFILE, os.strerror(EMFILE))


@pytest.mark.parametrize("missing", ["pipe", "thread"])
def test_interpreter_that_cannot_be_started_leaves_nothing(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Fake()
    ends: list[int] = []
    pipe = os.pipe

    def noted_pipe() -> tuple[int, int]:
        ends.extend(pipe())
        return ends[0], ends[1]

    monkeypatch.setattr(os, "pipe", no_pipe if missing == "pipe" else noted_pipe)
    if missing == "thread":
        monkeypatch.setattr(worker_process, "Thread", CannotStart)
    with pytest.raises(OSError if missing == "pipe" else RuntimeError):
        worker_process.RunningInterpreter(lambda: made, "", {}, [])
    assert made.closed
    assert len(ends) == (2 if missing == "thread" else 0)
    for end in ends:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(end)


@pytest.fixture
def channel_end() -> Iterator[ParentEnd]:
    """Return this process's end of a channel whose other end nobody reads."""
    sign, other = os.pipe()
    end = ParentEnd()
    end.started([sign], in_interpreter=True)
    yield end
    end.close()
    end.worker_end.close()
    os.close(sign)
    os.close(other)


def send_until_closed(end: ParentEnd, sent: list[int]) -> None:
    while True:
        end.send([bytes(60_000)])
        sent.append(1)


def test_channel_end_wakes_a_sender_when_it_is_closed(channel_end: ParentEnd) -> None:
    sent: list[int] = []
    with ThreadPoolExecutor(1) as executor:
        sending = executor.submit(send_until_closed, channel_end, sent)
        # There is room for four. Then the thread waits, or is just about to.
        assert wait_until(lambda: len(sent) == 4)
        assert not wait_until(sending.done, 0.1)
        channel_end.close()
        assert type(sending.exception(60)) is ChannelClosed


def test_channel_end_wakes_a_receiver_when_it_is_closed(channel_end: ParentEnd) -> None:
    with ThreadPoolExecutor(1) as executor:
        receiving = executor.submit(channel_end.receive)
        assert not wait_until(receiving.done, 0.1)
        channel_end.close()
        assert type(receiving.exception(60)) is ChannelClosed


def test_channel_end_refuses_in_a_fork(channel_end: ParentEnd) -> None:
    pid = os.fork()
    if not pid:
        try:
            channel_end.send([1])
        except ChannelClosed:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    channel_end.send([1])


def test_channel_end_is_closed_once() -> None:
    together = threading.Barrier(2)
    raised: list[BaseException] = []

    def meet(frame: FrameType, event: str, _: Any) -> None:
        # Both have found it open.
        if event == "call" and frame.f_code is ParentEnd.close.__code__:
            together.wait(60)

    def close(end: ParentEnd) -> None:
        sys.settrace(meet)
        try:
            end.close()
        except BaseException as error:  # noqa: BLE001 - it is compared.
            raised.append(error)
        finally:
            sys.settrace(None)

    # The descriptors that one of them has closed are those of other files when the other one comes to them.
    for _ in range(20):
        sign, other = os.pipe()
        end = ParentEnd()
        end.started([sign], in_interpreter=True)
        closers = [threading.Thread(target=close, args=(end,)) for _ in range(2)]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join(60)
        end.worker_end.close()
        os.close(sign)
        os.close(other)
    assert raised == []
