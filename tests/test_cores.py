"""The number of cores as a container sees it, on file systems modelled on those that the kernel shows."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spdl import _cores
from spdl._cores import find_groups
from spdl.pipeline import PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Machine = Callable[[str, str, dict[str, str]], None]

AFFINITY = 64

VERSION_2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
VERSION_2_BESIDES_1 = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw"
CPU_OF_VERSION_1 = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct"
# Before control groups had namespaces, a container's own group was mounted as the root.
CONTAINER_OF_VERSION_1 = "32 31 0:29 /docker/0123 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct"
OTHERS = """\
23 28 0:21 / /proc rw,nosuid - proc proc rw
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a function that makes a file system: mount points, the process's groups, and the files of groups."""

    def make(mounts: str, groups: str, files: dict[str, str]) -> None:
        everything = {"proc/self/mountinfo": OTHERS + mounts + "\n", "proc/self/cgroup": groups + "\n", **files}
        for name, text in everything.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

    monkeypatch.setattr(_cores, "_ROOT", f"{tmp_path}/")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(AFFINITY)))
    return make


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("max 100000", AFFINITY),
        ("150000 100000", 1.5),
        ("6500000 100000", AFFINITY),
        ("25000 50000", 0.5),
        ("-1 100000", AFFINITY),
        ("0 100000", AFFINITY),
        ("100000 0", AFFINITY),
        ("100000", AFFINITY),
        ("nonsense", AFFINITY),
        ("", AFFINITY),
    ],
)
class TestQuota:
    """The smaller of the affinity and the quota counts. A value that is no quota sets no limit."""

    def test_in_a_container(self, machine: Machine, quota: str, expected: float) -> None:
        machine(VERSION_2, "0::/", {"sys/fs/cgroup/cpu.max": quota + "\n"})
        assert _cores.available_cores() == expected

    def test_of_version_1(self, machine: Machine, quota: str, expected: float) -> None:
        files = dict(
            zip(("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us"),
                quota.replace("max", "-1").split(), strict=False)
        )  # fmt: skip
        machine(CPU_OF_VERSION_1, "5:memory:/\n4:cpu,cpuacct:/", files)
        assert _cores.available_cores() == expected


@pytest.mark.parametrize(
    ("own", "parent", "root", "expected"),
    [
        ("300000 100000", "max 100000", None, 3),
        ("300000 100000", "200000 100000", None, 2),
        ("max 100000", "200000 100000", "150000 100000", 1.5),
        (None, None, "400000 100000", 4),
        ("max 100000", "max 100000", None, AFFINITY),
    ],
)
def test_the_groups_around_the_own_one_count(
    machine: Machine, own: str | None, parent: str | None, root: str | None, expected: float
) -> None:
    quotas = {"slurm/job_7/cpu.max": own, "slurm/cpu.max": parent, "cpu.max": root, "other/cpu.max": "10000 100000"}
    files = {f"sys/fs/cgroup/{name}": quota for name, quota in quotas.items() if quota is not None}
    machine(VERSION_2, "0::/slurm/job_7", files)
    assert _cores.available_cores() == expected


@pytest.mark.parametrize(
    ("mounts", "groups", "quota_folder"),
    [
        (CPU_OF_VERSION_1, "4:cpu,cpuacct:/docker/0123", "docker/0123"),
        (CPU_OF_VERSION_1, "4:cpu,cpuacct:/docker/0123", "docker"),
        # The path is the machine's, and the folder does not exist.
        (CONTAINER_OF_VERSION_1, "4:cpu,cpuacct:/docker/0123", ""),
        (CONTAINER_OF_VERSION_1, "4:cpu,cpuacct:/docker/0123/job", "job"),
        (CONTAINER_OF_VERSION_1, "4:cpu,cpuacct:/docker/01234", ""),
        (CONTAINER_OF_VERSION_1, "4:cpu,cpuacct:/", ""),
        (CPU_OF_VERSION_1, "4:cpu,cpuacct:/../0123", ""),
        # Both versions at once.
        (
            f"{VERSION_2_BESIDES_1}\n{CPU_OF_VERSION_1}",
            "4:cpu,cpuacct:/a\n0::/b",
            "a",
        ),
    ],
)
def test_where_the_group_is_mounted(machine: Machine, mounts: str, groups: str, quota_folder: str) -> None:
    folder = f"sys/fs/cgroup/cpu,cpuacct/{quota_folder}"
    files = {f"{folder}/cpu.cfs_quota_us": "250000\n", f"{folder}/cpu.cfs_period_us": "100000\n"}
    machine(mounts, groups, files)
    assert _cores.available_cores() == 2.5


def test_a_quota_that_changes_is_seen(machine: Machine) -> None:
    machine(VERSION_2, "0::/", {"sys/fs/cgroup/cpu.max": "200000 100000\n"})
    assert _cores.available_cores() == 2
    machine(VERSION_2, "0::/", {"sys/fs/cgroup/cpu.max": "300000 100000\n"})
    assert _cores.available_cores() == 3


def test_a_machine_without_control_groups(machine: Machine) -> None:
    assert _cores.available_cores() == AFFINITY


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(mounts=TEXT, groups=TEXT)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_the_files_say(machine: Machine, mounts: str, groups: str) -> None:
    find_groups.cache_clear()
    machine(mounts, groups, {"sys/fs/cgroup/cpu.max": mounts})
    assert 0 < _cores.available_cores() <= AFFINITY


@pytest.mark.parametrize(
    ("quota", "threads"), [("150000 100000", 2 + 4), ("1600000 100000", 16 + 4), ("max 100000", 32), ("5000 100000", 5)]
)
def test_a_pipeline_gets_a_few_more_threads_than_cores(machine: Machine, quota: str, threads: int) -> None:
    machine(VERSION_2, "0::/", {"sys/fs/cgroup/cpu.max": quota})
    # The op blocks, so that all threads still run when they are counted.
    gate = threading.Event()
    builder = PipelineBuilder[Any, Any]().add_source([1]).pipe(lambda _: gate.wait(60), concurrency=100).add_sink(1)
    before = threading.active_count()
    cases: list[tuple[dict[str, Any], int]] = [({}, threads), ({"num_threads": None}, threads), ({"num_threads": 3}, 3)]
    for arguments, expected in cases:
        gate.clear()
        with builder.build(**arguments).auto_stop():
            # One extra thread pulls the source.
            assert threading.active_count() - before == expected + 1
            gate.set()
