"""The commands that watch, beside pages that are damaged, and where the system or the terminal refuses."""

from __future__ import annotations

import os
import pty
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.running import COMMAND, call, run, running
from tests.observe.pages import NOBODY, folder_of_all_pages, leave_page
from tests.observe.programs import observed, running_script
from tests.observe.programs import running as running_program

from spdl.observe import find_pipelines

if TYPE_CHECKING:
    from collections.abc import Iterator

# A busy machine may take long.
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="needs files in memory"), pytest.mark.timeout(240)]

PLANTED = Path(__file__).parents[2] / "observe" / "planted"


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    with running_script(PLANTED / "io.py") as process:
        observed(process, lambda seen: seen.delivered >= 5)
        yield process


@pytest.fixture
def rubbish(program: subprocess.Popen[bytes]) -> Iterator[Path]:
    """Put pages into the user's folder that are none: garbage, cut, empty, of another version, links, pipes."""
    folder = folder_of_all_pages()
    (page,) = find_pipelines(program.pid)
    content = page.path.read_bytes()
    generator = random.Random(1)  # noqa: S311 - no secret.
    pages: dict[str, bytes] = {"a": b"", "b": generator.randbytes(5000), "c": content[:60], "d": content[:-1]}
    pages["e"] = content[:8] + struct.pack("=I", 99) + content[12:]
    for number in range(40):
        damaged = bytearray(content)
        for _ in range(4):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        pages[f"f{number}"] = bytes(damaged)
    made = [folder / f"{program.pid}-9{name}.page" for name in pages]
    for path, text in zip(made, pages.values(), strict=True):
        path.write_bytes(text)
    link, inner = folder / f"{program.pid}-9link.page", folder / f"{program.pid}-9folder.page"
    pipe = folder / f"{program.pid}-9pipe.page"
    link.symlink_to("/dev/zero")
    os.mkfifo(pipe)
    inner.mkdir()
    yield folder
    inner.rmdir()
    for path in (link, pipe, *made):
        path.unlink(missing_ok=True)


@pytest.mark.usefixtures("rubbish")
def test_rubbish_among_the_pages_breaks_no_command(program: subprocess.Popen[bytes]) -> None:
    pid = str(program.pid)
    for words in (
        ["ps"],
        ["ps", "--json"],
        ["top", pid, "--once"],
        ["why", pid],
        ["why", pid, "--json"],
        ["stack", pid],
    ):
        done = call(*words)
        assert not done.stderr, (words, done.stderr)
        # A copy of a page that nobody writes any more looks like a hang.
        assert done.returncode in {0, 3, *range(10, 24)}, words
        assert "fetch" in done.stdout or words == ["ps"], words


def test_a_page_whose_number_another_process_has_now() -> None:
    folder = folder_of_all_pages()
    with running_program("import time; print(flush=True); time.sleep(100)") as process:
        leave_page(folder, process.pid, written=time.perf_counter())
        try:
            listed = call("ps").stdout
            assert any(f" {process.pid} " in line and "killed" in line for line in listed.splitlines())
            # The process that has the number now has no pipeline, and is left alone.
            assert "the process was killed" in call("stack", str(process.pid)).stdout
            assert process.poll() is None
        finally:
            (folder / f"{process.pid}-0.page").unlink(missing_ok=True)


# Pipelines that start look at some files of the user's folder, and would not come to those of other tests. Where there
# is no memory for files, the folder is another one.
_NO_MEMORY = """
import os
access = os.access
os.access = lambda path, mode: path != "/dev/shm" and access(path, mode)
"""


def test_a_thousand_pages(tmp_path: Path) -> None:
    folder = tmp_path / f"spdl-{os.getuid()}"
    made: list[Any] = [leave_page(folder, NOBODY + number, written=time.perf_counter()) for number in range(1000)]
    environment = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    listed = run("ps", before=_NO_MEMORY, environment=environment | {"TMPDIR": str(tmp_path)})
    assert (listed.returncode, listed.stderr) == (0, "")
    assert listed.stdout.count(" killed ") == 1000
    assert len(made) == 1000


def test_names_steer_no_terminal_and_are_told_apart() -> None:
    program = """
import itertools, time
from spdl.pipeline import PipelineBuilder

def op(item):
    time.sleep(0.002)
    return item

names = ["red\\x1b]0;title\\x07\\x1b[31m", "two\\nlines", "half \\udc80", "x" * 100 + "left", "x" * 100 + "right"]
builder = PipelineBuilder().add_source(itertools.count())
for name in names:
    builder.pipe(op, name=name)
with builder.add_sink().build(num_threads=5).auto_stop() as pipeline:
    for _ in pipeline:
        pass
"""
    with running_program(program) as process:
        observed(process, lambda seen: seen.delivered >= 5)
        pid = str(process.pid)
        shown = {}
        for words in ("ps", f"top {pid} --once", f"why {pid}", f"stack {pid}", f"top {pid} --once --json"):
            done = run(*words.split(), environment={**os.environ, "COLUMNS": "90"})
            assert not done.stderr, (words, done.stderr)
            assert all(it.isprintable() for it in done.stdout.replace("\n", "")), words
            shown[words] = done.stdout
    names = re.findall(r"^(x+\.\.\.\S+)  .*/\d+$", shown[f"top {pid} --once"], re.MULTILINE)
    assert len(set(names)) == len(names) == 2


def in_namespace(script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script with mounts of its own, as root of them."""
    unshare = shutil.which("unshare")
    command = [unshare or "", "--mount", "--map-root-user", "sh", "-ec"]
    if unshare is None or subprocess.run([*command, "mount -t tmpfs none /dev/shm"], check=False).returncode:
        pytest.skip("makes no namespaces here")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environment.pop("SPDL_OBSERVE", None)
    return subprocess.run([*command, script], check=False, capture_output=True, text=True, timeout=100, env=environment)


_READ_ALL = (
    "from spdl.pipeline import PipelineBuilder; import sys; from spdl.cli import main\n"
    "with PipelineBuilder().add_source(range(99)).add_sink().build(num_threads=1).auto_stop() as pipeline:\n"
    "    assert next(iter(pipeline)) == 0\n"
    "    status = main(['ps'])\n"
    "print('all', status)"
)


@pytest.mark.parametrize(
    "mount",
    [
        "mount -t tmpfs -o size=4k none /dev/shm && (head -c 4096 /dev/zero > /dev/shm/full || true)",
        "mount -t tmpfs -o ro none /dev/shm",
        "mount -t tmpfs -o mode=000 none /dev/shm",
    ],
    ids=["full", "read-only", "no permission"],
)
def test_where_memory_has_no_place_pipelines_run_and_commands_say_so(mount: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_READ_ALL)
    done = in_namespace(f"{mount}\nunset XDG_RUNTIME_DIR; TMPDIR={tmp_path}/none {sys.executable} {program}")
    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout.endswith("all 0\n")


@pytest.mark.parametrize("make", ["mkdir -m 777", "touch", "ln -s /tmp"])
def test_a_folder_that_others_may_use_is_named_as_the_reason(make: str) -> None:
    command = f"{sys.executable} -c 'from spdl.cli import main; import sys; sys.exit(main())'"
    done = in_namespace(
        f"mount -t tmpfs none /dev/shm && {make} /dev/shm/spdl-0\n{command} ps; {command} why 1 || echo status $?"
    )
    for said in (done.stdout, done.stderr):
        assert "None can be seen: /dev/shm/spdl-0 must be your own folder, and closed to other users." in said
    assert done.stdout.endswith("status 1\n")


@pytest.mark.parametrize("words", [["ps"], ["top", "--once"], ["stack"]])
def test_on_a_terminal_of_40_columns(words: list[str], program: subprocess.Popen[bytes]) -> None:
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "xterm"}
    command = [*COMMAND, words[0], *([] if words == ["ps"] else [str(program.pid)]), *words[1:]]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 10_000)
            except OSError:  # The other side is closed.
                break
        assert process.wait(timeout=100) in {0, 3}
    os.close(ours)
    assert b"Traceback" not in shown
    assert b"io.py" in shown


def test_output_that_nobody_reads_any_more(program: subprocess.Popen[bytes]) -> None:
    with running("top", str(program.pid), "--interval", "0.05") as top:
        assert top.stdout is not None
        assert top.stderr is not None
        top.stdout.readline()
        top.stdout.close()
        assert top.wait(timeout=100) == 128 + signal.SIGPIPE
        assert top.stderr.read() == ""


@pytest.mark.parametrize("words", [["top"], ["why", "--seconds", "600"]])
def test_ctrl_c_ends_it_at_once(words: list[str], program: subprocess.Popen[bytes]) -> None:
    with running(words[0], str(program.pid), *words[1:]) as process:
        # It has begun to watch when it has opened the page.
        page, deadline = str(find_pipelines(program.pid)[0].path), time.monotonic() + 60
        while page not in opened(process.pid):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=100) == 130
        assert process.stderr is not None
        assert process.stderr.read() == ""


def opened(pid: int) -> list[str]:
    """Return the files that a process has open."""
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(str(link.readlink()))
        except OSError:
            # It was closed meanwhile.
            continue
    return found


def test_other_containers_are_shown_as_long_as_they_run() -> None:
    folder = folder_of_all_pages()
    nobody = NOBODY + 3
    file = leave_page(folder, nobody, written=time.perf_counter(), of_other_container=True)
    try:
        assert any(f" {nobody} " in line and "running" in line for line in call("ps").stdout.splitlines())
        assert file.rows
    finally:
        (folder / f"{nobody}-0.page").unlink()
