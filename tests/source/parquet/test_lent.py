"""The interpreter does not end while threads of pyarrow hold what they would need it for to let go."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("pyarrow", reason="needs pyarrow")

# A pool's thread is late when its machine is busy; here one of Python's stands for it. It takes what pyarrow is given
# first, and lets it go only when the interpreter is about to end, or never.
_HOLDS = """
    import atexit, io, sys, threading, time
    import pyarrow.parquet
    from spdl.source import ParquetFiles
    from spdl.store import LocalStore

    begun, ending = threading.Event(), threading.Event()

    def hold(views):
        begun.set()
        ending.wait()
        time.sleep(0.2 if sys.argv[2] == "late" else 600)
        print("let go", flush=True)

    def read_and_hold(file, size=-1, /):
        view = read(file, size)
        if not begun.is_set():
            threading.Thread(target=hold, args=([view],), daemon=True).start()
            begun.wait()
        return view

    files = ParquetFiles("0.parquet", store=LocalStore(sys.argv[1]))
    kind = next(each for each in io.RawIOBase.__subclasses__() if hasattr(each, "read_buffer"))
    read, kind.read_buffer = kind.read_buffer, read_and_hold
    for table in files.tables_from():
        pass
    del table, files
    atexit.register(ending.set)
    """

_READS = """
    import sys
    import pyarrow, pyarrow.parquet
    from spdl.source import ParquetFiles
    from spdl.store import LocalStore

    sys.setswitchinterval(1e-6)
    pyarrow.set_cpu_count(16)
    for table in ParquetFiles("0.parquet", store=LocalStore(sys.argv[1])).tables_from():
        pass
    """


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=50)


def write(folder: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415 - see above.
    import pyarrow.parquet as pq  # noqa: PLC0415

    pq.write_table(pa.table({f"c{number}": range(500) for number in range(64)}), folder / "0.parquet")


@pytest.mark.parametrize(("how", "said"), [("late", "let go\n"), ("never", "")])
def test_a_program_waits_for_what_a_thread_holds_and_not_for_long(tmp_path: Path, how: str, said: str) -> None:
    write(tmp_path)
    found = run(_HOLDS, str(tmp_path), how)
    assert (found.returncode, found.stdout, found.stderr) == (0, said, "")


def test_a_program_ends_with_its_last_table(tmp_path: Path) -> None:
    write(tmp_path)
    for _ in range(3):
        found = run(_READS, str(tmp_path))
        assert (found.returncode, found.stderr) == (0, "")
