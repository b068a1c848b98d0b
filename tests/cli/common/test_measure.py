import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from tests.delays import tolerates_delays

from spdl.cli._common.measure import cpu_seconds, peak_memory, session_memory

MEGABYTES = 2**20


@tolerates_delays
def test_cpu_seconds_counts_work_but_not_waiting() -> None:
    before = cpu_seconds()
    start = time.thread_time()
    while time.thread_time() - start < 0.2:
        pass
    worked = cpu_seconds() - before
    assert 0.19 < worked < 1
    before = cpu_seconds()
    time.sleep(0.2)
    assert cpu_seconds() - before < 0.1


def test_cpu_seconds_counts_children() -> None:
    code = "import time\nwhile time.process_time() < 0.5: pass"
    before = cpu_seconds()
    subprocess.run([sys.executable, "-c", code], check=True)
    assert cpu_seconds() - before > 0.45


def test_peak_memory_stays_when_memory_goes() -> None:
    before = max(peak_memory(), psutil.Process().memory_info().rss)
    held = np.ones(before + 64 * MEGABYTES, dtype=np.uint8)
    resident = psutil.Process().memory_info().rss
    del held
    assert peak_memory() == pytest.approx(resident, rel=0.05)


def test_peak_memory_is_not_inherited() -> None:
    held = np.ones(400 * MEGABYTES, dtype=np.uint8)
    code = "from spdl.cli._common.measure import peak_memory; print(peak_memory())"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(done.stdout) < held.nbytes / 2


def test_session_memory_sees_all_processes_of_it() -> None:
    # A parent that holds 40 MB and forks a child that changes them: 80 MB. The sum of the resident sets is larger.
    code = (
        "import mmap, os\n"
        "held = mmap.mmap(-1, 40_000_000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
        "def fill():\n"
        "    for page in range(0, len(held), mmap.PAGESIZE): held[page] = 1\n"
        "fill()\n"
        "child = os.fork()\n"
        "if not child: fill()\n"
        "print('ready', flush=True)\n"
        "os.read(0, 1)\n"
        "if child: os.waitpid(child, 0)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.readline()
        memory = session_memory(process.pid)
        process.stdin.write(b"..")
        process.stdin.close()
        process.wait()
    assert memory is not None
    assert 80_000_000 < memory < 130_000_000
    assert session_memory(process.pid) is None
