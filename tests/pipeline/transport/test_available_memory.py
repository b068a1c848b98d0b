"""How much memory is left, as containers see it: on file systems modelled on those of the kernel, and on this one's."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spdl.pipeline._transport import available_memory as module
from spdl.pipeline._transport.available_memory import available_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Machine = Callable[[str, str, dict[str, str]], None]

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

    monkeypatch.setattr(module, "_ROOT", f"{tmp_path}/")
    return make


def test_version_2(machine: Machine) -> None:
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
def test_version_1(machine: Machine, mount: str, group: str, folder: str) -> None:
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


def test_no_limit(machine: Machine) -> None:
    files = {"memory/memory.limit_in_bytes": NONE_OF_VERSION_1, "memory/memory.usage_in_bytes": str(5 * GB)}
    machine(f"{VERSION_1}\n{VERSION_2}", "4:memory:/\n0::/", files)
    assert available_memory() == 8 * GB


@pytest.mark.parametrize("text", ["", "nonsense", "12 24", "-"])
def test_files_that_say_nothing(machine: Machine, text: str) -> None:
    machine(VERSION_2, "0::/", {"memory.max": text, "memory.current": text, "memory.stat": "\n\n"})
    assert available_memory() == 8 * GB


@pytest.mark.parametrize("text", ["", "\n\n", "inactive_file", "inactive_file many\n"])
def test_a_group_that_does_not_tell_its_files(machine: Machine, text: str) -> None:
    files = {"memory.max": str(2 * GB), "memory.current": str(GB), "memory.stat": text}
    machine(VERSION_2, "0::/", files)
    assert available_memory() == GB


def test_more_is_used_than_allowed(machine: Machine) -> None:
    machine(VERSION_2, "0::/a", {"a/memory.max": str(GB), "a/memory.current": str(GB + 4096)})
    assert available_memory() == 0


def test_a_machine_that_shows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROOT", f"{tmp_path}/")
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
from spdl.pipeline._transport.anonymous_memory import AnonymousMemory
memory = AnonymousMemory(1 << 30)
memory.back(0, 64 << 20)
try:
    memory.back(0, 1 << 30)
except OSError as error:
    print(error)
"""


def test_a_real_group_of_version_1(group: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, group], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "has no 1,073,741,824 bytes of memory left" in done.stdout
