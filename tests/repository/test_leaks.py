"""The leak check itself: a leak is named, and a clean test passes."""

import textwrap
from pathlib import Path

import pytest

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


@pytest.fixture
def pytester_with_plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    return pytester


def run(pytester: pytest.Pytester, source: str) -> pytest.RunResult:
    pytester.makepyfile(textwrap.dedent(source))
    # A separate process, so that its leaks are not blamed on this test.
    return pytester.runpytest_subprocess("-p", "tests.leaks", "-p", "no:cacheprovider")


@pytest.mark.parametrize("kind", LEAKS)
def test_leak_fails_the_test_and_is_named(pytester_with_plugin: pytest.Pytester, kind: str) -> None:
    source, named = LEAKS[kind]
    result = run(pytester_with_plugin, source)
    for segment in Path("/dev/shm").glob("spdl-forgotten-*"):  # noqa: S108
        segment.unlink()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*the test left behind:", named])


@pytest.mark.parametrize("kind", CLEAN)
def test_clean_test_passes(pytester_with_plugin: pytest.Pytester, kind: str) -> None:
    run(pytester_with_plugin, CLEAN[kind]).assert_outcomes(passed=1)


def test_later_tests_are_not_blamed(pytester_with_plugin: pytest.Pytester) -> None:
    result = run(
        pytester_with_plugin,
        """
        import os

        def test_leaking(tmp_path):
            os.open(tmp_path / "a", os.O_CREAT)

        def test_after_it():
            pass
        """,
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["ERROR *::test_leaking*"])
