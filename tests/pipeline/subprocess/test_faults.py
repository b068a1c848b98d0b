"""Test processes that are killed, stopped or cannot start: the error, how soon it comes, and that nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.pipeline.subprocess.work import METHODS, Buffers, Logged, Numbers, Silent, describe_process, forked_by
from tests.pipeline.support import wait_until

from spdl.pipeline import iterate_in_subprocess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)

KILLED = r"The worker subprocess exited unexpectedly \(killed by signal SIGKILL, .*\)\."

# Far less than the ops here sleep, and more than a busy machine needs.
AT_ONCE = 30


@contextmanager
def noticed_at_once(message: str = KILLED) -> Iterator[None]:
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match=message):
        yield
    assert time.monotonic() - begin < AT_ONCE


def is_gone(pid: int) -> bool:
    """Return whether a process has ended. It may stay as a zombie if the machine's first process reaps no orphans."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class TestWorkerIsKilled:
    def test_while_idle(self, method: str) -> None:
        items = iterate_in_subprocess(describe_process, mp_context=method)
        (told,) = items
        os.kill(told["pid"], signal.SIGKILL)
        with noticed_at_once():
            list(items)
        with pytest.raises(RuntimeError, match="Cannot iterate again: it exited unexpectedly"):
            list(items)

    def test_while_the_parent_waits(self, method: str) -> None:
        begun = iter(iterate_in_subprocess(Silent(items=1), mp_context=method))
        pid = next(begun)
        # Another process kills the worker, since this one waits.
        killer = subprocess.Popen(["/bin/sh", "-c", f"sleep 0.3; kill -9 {pid}; sleep 0.1; date +%s.%N"], stdout=-1)
        with pytest.raises(RuntimeError, match=KILLED):
            next(begun)
        noticed = time.time()
        killed = float(killer.communicate()[0])
        assert noticed - killed < AT_ONCE

    def test_while_it_produces(self) -> None:
        for seconds in (0.0, 0.003, 0.02):
            items, process = forked_by(
                lambda: iterate_in_subprocess(Buffers([50_000] * 100_000), buffer_size=10, mp_context="fork")
            )
            begun = iter(items)
            count = 0
            deadline = time.monotonic() + seconds
            with pytest.raises(RuntimeError, match=KILLED):  # noqa: PT012 - whichever of its reads it is.
                for i, array, content in begun:
                    # Items that were sent before arrive complete.
                    assert i == count
                    assert (array == i % 251).all()
                    assert len(content) == 50_000
                    count += 1
                    if time.monotonic() > deadline:
                        process.kill()
                        deadline = float("inf")
            assert count > 0

    def test_items_that_were_sent_before_arrive(self, tmp_path: Path) -> None:
        begun = iter(iterate_in_subprocess(Numbers(1000), buffer_size=5))
        pid = next(begun)[2]
        os.kill(pid, signal.SIGKILL)
        got: list[Any] = []
        with noticed_at_once():
            got.extend(begun)
            pytest.fail("the end was taken for that of the pass")
        items, process = forked_by(
            lambda: iterate_in_subprocess(Logged(tmp_path / "made", 1000), buffer_size=5, mp_context="fork")
        )
        numbers = iter(items)
        assert next(numbers) == 0
        # It makes an item once it has sent the one before. It may send five that were not taken.
        assert wait_until(lambda: "6" in (tmp_path / "made").read_text().split())
        process.kill()
        assert [next(numbers) for _ in range(5)] == [1, 2, 3, 4, 5]
        with noticed_at_once():
            next(numbers)

    def test_and_has_children_that_keep_its_pipes_open(self) -> None:
        """The end of a pipe shows only when no process has it open any more."""

        def give() -> Iterator[tuple[int, int]]:
            child = os.fork()
            if child == 0:
                time.sleep(30)
                os._exit(0)
            yield os.getpid(), child
            time.sleep(30)

        begun = iter(iterate_in_subprocess(give, mp_context="fork"))
        pid, child = next(begun)
        try:
            os.kill(pid, signal.SIGKILL)
            with noticed_at_once():
                next(begun)
        finally:
            os.kill(child, signal.SIGKILL)
            assert wait_until(lambda: is_gone(child))

    def test_before_it_is_ready(self) -> None:
        with noticed_at_once(KILLED + " It had not begun to work"):
            iterate_in_subprocess(list, initializer=lambda: os.kill(os.getpid(), signal.SIGKILL), mp_context="fork")


class TestWorkerIsStopped:
    def test_it_is_noticed_by_the_timeout_and_killed(self) -> None:
        begun: Iterator[Any] = iter(())
        pid = 0
        while not pid:
            # The process has to begin in that time as well, and on a busy machine it may not.
            with suppress(TimeoutError):
                begun = iter(iterate_in_subprocess(Numbers(1000), timeout=3, mp_context="fork"))
                pid = next(begun)[2]
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(TimeoutError, match=r"did not produce any data for 3 seconds"):
            list(begun)
        assert not psutil.pid_exists(pid)

    def test_it_goes_on(self) -> None:
        begun = iter(iterate_in_subprocess(Numbers(100), timeout=20))
        pid = next(begun)[2]
        os.kill(pid, signal.SIGSTOP)
        with subprocess.Popen(["/bin/sh", "-c", f"sleep 0.5; kill -CONT {pid}"]):
            assert [i for _, i, _ in begun] == list(range(1, 100))

    def test_it_does_not_outlive_the_iterable(self) -> None:
        items = iterate_in_subprocess(Numbers(1000))
        pid = next(iter(items))[2]
        os.kill(pid, signal.SIGSTOP)
        items.close()
        assert not psutil.pid_exists(pid)


PARENT = """
    import sys, time
    from tests.pipeline.subprocess.work import Numbers, Silent, sleep_long
    from spdl.pipeline import PipelineBuilder, iterate_in_subprocess, run_pipeline_in_subprocess

    if __name__ == "__main__":
        {work}
        time.sleep(60)
"""
WORK = {
    # The worker is between passes, has a full buffer, or runs code that does not return for a long time.
    "idle": "items = iterate_in_subprocess(Numbers(1), mp_context={method!r}); "
    "print(*[i[2] for i in items], flush=True)",
    "full": "items = iter(iterate_in_subprocess(Numbers(9999), mp_context={method!r})); "
    "print(next(items)[2], flush=True)",
    "busy": "items = iter(iterate_in_subprocess(Silent(1), mp_context={method!r})); print(next(items), flush=True)",
    "waited for": "for i in iterate_in_subprocess(Silent(1), mp_context={method!r}): print(i, flush=True)",
    "two": "items = [iter(iterate_in_subprocess(Silent(1), mp_context={method!r})) for _ in range(2)]; "
    "print(*[next(i) for i in items], flush=True)",
}


@pytest.mark.parametrize("state", WORK)
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_a_killed_parent(state: str, end: signal.Signals) -> None:
    check_killed_parent(WORK[state], "fork", end)


def test_no_worker_of_another_method_outlives_a_killed_parent() -> None:
    for method in METHODS[1:]:
        check_killed_parent(WORK["two"], method, signal.SIGKILL)


def check_killed_parent(work: str, method: str, end: signal.Signals = signal.SIGKILL) -> None:
    program = textwrap.dedent(PARENT).format(work=work.format(method=method))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert pids
        # The processes of multiprocessing and of pools must end, too.
        pids += [process.pid for process in psutil.Process(parent.pid).children(recursive=True)]
        parent.send_signal(end)
        parent.wait()
    for pid in pids:
        assert wait_until(lambda pid=pid: is_gone(pid)), psutil.Process(pid).cmdline()  # type: ignore[misc]


class TestStarting:
    @pytest.mark.parametrize("method", METHODS[1:])
    def test_a_main_module_that_cannot_be_imported(self, tmp_path: Path, method: str) -> None:
        script = tmp_path / "main.py"
        script.write_text(
            textwrap.dedent(f"""
                from spdl.pipeline import iterate_in_subprocess

                if __name__ != "__main__":
                    raise ImportError("not twice")
                try:
                    iterate_in_subprocess(list, mp_context="{method}", timeout=30)
                except RuntimeError as error:
                    print(error)
            """)
        )
        done = subprocess.run(
            [sys.executable, script], check=True, capture_output=True, text=True, timeout=60, cwd=tmp_path
        )
        assert "The worker subprocess exited unexpectedly" in done.stdout
        assert "It had not begun to work" in done.stdout
        assert "if __name__ == '__main__':" in done.stdout
        assert "not twice" in done.stderr

    def test_a_script_without_a_guard(self, tmp_path: Path) -> None:
        script = tmp_path / "main.py"
        script.write_text(
            "from spdl.pipeline import iterate_in_subprocess\n"
            "print(list(iterate_in_subprocess(list, mp_context='spawn')))\n"
        )
        done = subprocess.run([sys.executable, script], check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        assert "so code that starts processes belongs under `if __name__ == '__main__':` there" in done.stderr


def test_interrupting_a_terminal_is_the_parents_matter() -> None:
    """Ctrl-C reaches both processes, and only the parent reports it."""
    program = """
        from tests.pipeline.subprocess.work import Silent
        from spdl.pipeline import iterate_in_subprocess
        if __name__ == "__main__":
            try:
                for i in iterate_in_subprocess(Silent(1, seconds=10)):
                    print(i, flush=True)
            except KeyboardInterrupt:
                print("interrupted")
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.killpg(parent.pid, signal.SIGINT)
        rest, errors = parent.communicate(timeout=20)
    assert (rest, errors, parent.returncode) == ("interrupted\n", "", 0)
    assert wait_until(lambda: is_gone(pid))


@pytest.mark.parametrize("method", METHODS)
def test_descriptors_are_returned(method: str) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - as the system counts them.

    iterate_in_subprocess(Numbers(1), mp_context=method).close()
    before = count()
    kept: list[Any] = []
    for _ in range(3):
        items = iterate_in_subprocess(Numbers(1), mp_context=method)
        list(items)
        items.close()
        kept.append(items)
    assert count() == before
