"""Memory that reading takes: about once what is read."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.store.http.scripted_server import say_part, serving

MIB = 1 << 20
SIZE = 256 * MIB


@pytest.mark.skipif(sys.platform != "linux", reason="as /proc is Linux's")
@pytest.mark.parametrize("call", ["get('x')", f"get_ranges('x', [0], [{SIZE}])[0]"])
def test_a_large_object_is_received_into_its_place(call: str) -> None:
    program = (
        "import sys; from pathlib import Path; from spdl.store import HTTPStore\n"
        "def most(): return int(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0]) << 10\n"
        "store = HTTPStore(sys.argv[1], timeout=120); store.get_ranges('x', [0], [10])\n"
        "before = most()\n"
        f"assert len(store.{call}) == {SIZE}\n"
        "print(most() - before)\n"
    )
    content = bytes(SIZE)
    with serving(lambda _, wanted: (say_part(content, wanted), True)) as (url, _):
        done = subprocess.run([sys.executable, "-c", program, url], capture_output=True, text=True, check=True)
    # A few parts are on their way at a time, of 8 MiB each.
    assert SIZE <= int(done.stdout) <= 1.6 * SIZE
