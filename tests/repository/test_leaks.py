"""The leak check itself: a leak is named, and a clean test passes."""

import os
import subprocess
import sys
import textwrap
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest
from tests.leaks import FORGOTTEN

LEAKS = {
    "thread": (
        """
        import threading

        def test_it():
            threading.Thread(target=threading.Event().wait, name="forgotten", daemon=True).start()
        """,
        "*daemon thread 'forgotten', now at *threading.py:* in wait",
    ),
    "native thread": (
        """
        import _thread, time

        def test_it():
            _thread.start_new_thread(time.sleep, (30,))
        """,
        "*native thread '*'",
    ),
    "process": (
        """
        import subprocess, sys

        kept = []

        def test_it():
            kept.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"]))
        """,
        "*process * (*import time; time.sleep(20))",
    ),
    "zombie": (
        """
        import os

        def test_it():
            if os.fork() == 0:
                os._exit(0)
        """,
        "*process * (ended, nobody waited for it)",
    ),
    "file descriptor": (
        """
        import os

        def test_it(tmp_path):
            os.open(tmp_path / "forgotten.txt", os.O_CREAT | os.O_WRONLY)
        """,
        "*file descriptor * (*forgotten.txt)",
    ),
    "shared memory": (
        """
        import os
        from pathlib import Path

        def test_it():
            Path("/dev/shm", f"spdl-forgotten-{os.getpid()}").write_bytes(bytes(64))
        """,
        "*shared memory /dev/shm/spdl-forgotten-* (64 bytes)",
    ),
}

# Some of these tests wait for half a minute, and a busy machine takes several times as long.
pytestmark = pytest.mark.timeout(300)

CLEAN = {
    "joined thread": """
        import threading

        def test_it():
            thread = threading.Thread(target=int)
            thread.start()
            thread.join()
        """,
    "thread that ends by itself a moment later": """
        import threading, time

        def test_it():
            threading.Thread(target=time.sleep, args=(0.2,)).start()
        """,
    "closed file and waited process": """
        import os, subprocess, sys

        def test_it(tmp_path):
            os.close(os.open(tmp_path / "a", os.O_CREAT))
            subprocess.run([sys.executable, "-c", ""], check=True)
        """,
    "file that only a reference cycle holds": """
        import os

        class Holder:
            def __init__(self, fd):
                self.fd, self.itself = fd, self

            def __del__(self):
                os.close(self.fd)

        def test_it(tmp_path):
            Holder(os.open(tmp_path / "a", os.O_CREAT))
        """,
    "file of a reference cycle that a thread holds a moment longer": """
        import os, threading, time

        class Holder:
            def __init__(self, fd):
                self.fd, self.itself = fd, self

            def __del__(self):
                os.close(self.fd)

        def test_it(tmp_path):
            holder = Holder(os.open(tmp_path / "a", os.O_CREAT))
            threading.Thread(target=lambda _: time.sleep(0.2), args=(holder,)).start()
        """,
    "unlinked shared memory": """
        from multiprocessing.shared_memory import SharedMemory

        def test_it():
            segment = SharedMemory(create=True, size=64)
            segment.close()
            segment.unlink()
        """,
    "helper processes of multiprocessing": """
        import multiprocessing

        def test_it():
            with multiprocessing.get_context("forkserver").Pool(1) as pool:
                assert pool.map(int, ["1"]) == [1]
                pool.close()
                pool.join()
        """,
}


class Outcome(NamedTuple):
    """The result of a test: of itself, of what follows it, and the text of what failed."""

    passed: bool
    blamed: bool
    text: str


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Run all these tests in one separate process, so that their leaks are not blamed on a test of this file."""
    folder = tmp_path_factory.mktemp("leaks")
    modules = {**{name: source for name, (source, _) in LEAKS.items()}, **CLEAN}
    for index, source in enumerate(modules.values()):
        (folder / f"test_{index:02}.py").write_text(textwrap.dedent(source))
    command = [sys.executable, "-m", "pytest", "-p", "tests.leaks", "-p", "no:cacheprovider", "--junit-xml=seen.xml"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    (folder / "pytest.ini").write_text("[pytest]")
    # A file, not a pipe, which the forgotten process would keep open.
    with (
        (folder / "output.txt").open("w+") as output,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output) as process,
    ):
        status = process.wait(timeout=250)
        output.seek(0)
        assert status == 1, output.read()
    # Another process may run this fixture meanwhile, so no other segment is removed.
    Path(f"/dev/shm/{FORGOTTEN}{process.pid}").unlink()  # noqa: S108
    seen: dict[str, Outcome] = {}
    for case in ET.parse(folder / "seen.xml").iter("testcase"):  # noqa: S314 - pytest has written it.
        name = list(modules)[int(case.attrib["classname"].removeprefix("test_"))]
        errors = [error.text or "" for error in case.iter("error")]
        before = seen.get(name, Outcome(passed=True, blamed=False, text=""))
        passed = before.passed and case.find("failure") is None and case.find("skipped") is None
        seen[name] = Outcome(passed, before.blamed or bool(errors), "\n".join([before.text, *errors]))
    assert sorted(seen) == sorted(modules)
    return seen


@pytest.mark.parametrize("kind", LEAKS)
def test_leak_fails_the_test_and_is_named(outcomes: dict[str, Outcome], kind: str) -> None:
    outcome = outcomes[kind]
    assert outcome.passed
    assert outcome.blamed
    assert "the test left behind:" in outcome.text
    # Nothing is blamed on it that an earlier test has left.
    _, *named = outcome.text.partition("the test left behind:")[2].strip().splitlines()
    assert fnmatch(outcome.text.strip().splitlines()[-1], LEAKS[kind][1])
    assert not named


@pytest.mark.parametrize("kind", CLEAN)
def test_clean_test_passes(outcomes: dict[str, Outcome], kind: str) -> None:
    """The tests before it have left something of every kind, for which it must not be blamed."""
    assert outcomes[kind] == Outcome(passed=True, blamed=False, text="")
