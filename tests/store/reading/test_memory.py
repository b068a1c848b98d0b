"""Memory that reading takes: about once what is read, and nothing of it when that is let go."""

from __future__ import annotations

import subprocess
import sys
import weakref
from typing import Any

import pytest
from tests.pipeline.support import wait_until
from tests.store.http.scripted_server import say_part, serving

from spdl.store import HTTPStore
from spdl.store._reading import crew

MIB = 1 << 20
SIZE = 256 * MIB


def test_threads_that_have_helped_keep_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "_IDLE_SECONDS", 600.0)
    content = bytes(20 * MIB)
    with serving(lambda _, wanted: (say_part(content, wanted), True)) as (url, _):
        store = HTTPStore(url, timeout=60)
        found: Any = memoryview(store.get("x"))
        assert len(found) == len(content)
        memory = weakref.ref(found.obj)
        del found
        assert wait_until(lambda: memory() is None, 20)
        store.close()


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
