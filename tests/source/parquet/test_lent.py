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

# A pool's thread is late when its machine is busy; here one of Python's stands for it.
_HOLDS = """
    import threading, time
    from spdl.source._parquet.lent import lend

    view = lend(memoryview(b"content")[1:])
    begun = threading.Event()

    def hold(view):
        begun.set()
        time.sleep(0.5)
        print("let go", flush=True)

    threading.Thread(target=hold, args=(view,), daemon=True).start()
    begun.wait()
    del view
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


def test_what_a_thread_holds_is_waited_for() -> None:
    found = run(_HOLDS)
    assert (found.returncode, found.stdout, found.stderr) == (0, "let go\n", "")


def test_what_nobody_lets_go_is_not_waited_for_long() -> None:
    found = run("from spdl.source._parquet.lent import lend\nkept = lend(memoryview(b'content')[1:])")
    assert (found.returncode, found.stderr) == (0, "")


def test_a_program_ends_with_its_last_table(tmp_path: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415 - see above.
    import pyarrow.parquet as pq  # noqa: PLC0415

    pq.write_table(pa.table({f"c{number}": range(500) for number in range(64)}), tmp_path / "0.parquet")
    for _ in range(5):
        found = run(_READS, str(tmp_path))
        assert (found.returncode, found.stderr) == (0, "")
