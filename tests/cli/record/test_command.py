import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.running import COMMAND, run, running
from tests.cli.terminal import press_ctrl_c
from tests.traces import read

# A busy machine may take long.
pytestmark = pytest.mark.timeout(240)

SCRIPT = """
import sys
from spdl.pipeline import PipelineBuilder

def double(item):
    return 2 * item

pipeline = PipelineBuilder().add_source(range(10)).pipe(double).add_sink(3).build(num_threads=1)
with pipeline.auto_stop():
    print(list(pipeline))
sys.exit(3)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_a_program_that_knows_nothing_of_it(script: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.json.gz"

    done = run("record", "-o", output, "--", sys.executable, script)

    assert done.returncode == 3
    assert done.stdout == "[0, 2, 4, 6, 8, 10, 12, 14, 16, 18]\n"
    assert done.stderr == f"spdl: wrote {output} with the pipelines of 1 process; open it at https://ui.perfetto.dev\n"
    trace = read(output)
    assert list(trace.processes.values()) == ["train.py"]
    assert [[piece.name for piece in way] for way in trace.flows().values()] == [["src", "double", "step"]] * 10


def test_all_processes_are_in_one_trace(script: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.json.gz"
    parent = tmp_path / "parent.py"
    parent.write_text(
        f"import subprocess, sys\nfor _ in range(2): subprocess.run([sys.executable, {str(script)!r}])\n" + SCRIPT
    )

    done = run("record", "-o", output, sys.executable, parent)

    assert done.returncode == 3
    assert "the pipelines of 3 processes" in done.stderr
    trace = read(output)
    assert sorted(trace.processes.values()) == ["parent.py", "train.py", "train.py"]
    assert len(trace.flows()) == 30
    assert len({row.process for row in trace.rows.values()}) == 3


def test_pipelines_in_subprocesses(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("""
from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess

def double(item):
    return 2 * item

if __name__ == "__main__":
    config = PipelineBuilder().add_source(range(10)).pipe(double).add_sink(3).get_config()
    print(list(run_pipeline_in_subprocess(config, num_threads=1)))
""")
    output = tmp_path / "out.json.gz"

    done = run("record", "-o", output, "--", sys.executable, script)

    assert done.returncode == 0, done.stderr
    assert len(read(output).named("double")) == 10


def test_ctrl_c_ends_the_program_and_the_trace_is_written(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("""
import itertools
from spdl.pipeline import PipelineBuilder

with PipelineBuilder().add_source(itertools.count()).pipe(abs).add_sink(3).build().auto_stop() as pipeline:
    for item in pipeline:
        if item == 100:
            print("running", flush=True)
""")
    output = tmp_path / "out.json.gz"
    done = press_ctrl_c("running", "record", "-o", output, "--", sys.executable, script)
    assert done.returncode == 128 + signal.SIGINT
    assert "KeyboardInterrupt" in done.stdout
    assert f"spdl: wrote {output}" in " ".join(done.stdout.split())
    assert len(read(output).named("abs")) > 100


def test_sigterm_is_the_programs_and_the_trace_is_written(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("""
import itertools, signal, sys
from spdl.pipeline import PipelineBuilder

signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
with PipelineBuilder().add_source(itertools.count()).pipe(abs).add_sink(3).build().auto_stop() as pipeline:
    for item in pipeline:
        if item == 100:
            print("running", flush=True)
""")
    output = tmp_path / "out.json.gz"
    # As batch systems and `timeout` do, to the command alone.
    with running("record", "-o", output, "--", sys.executable, script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.terminate()
        _, errors = process.communicate(timeout=100)
    assert process.returncode == 7
    assert errors.startswith(f"spdl: wrote {output}")
    assert len(read(output).named("abs")) > 100


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_nothing_is_left_beside_the_trace_if_the_command_is_killed(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, number: signal.Signals
) -> None:
    output = tmp_path / "out.json.gz"
    output.write_bytes(b"earlier")
    program = "import sys; print('begun', flush=True); sys.stdin.read()"
    command = subprocess.Popen(
        [*COMMAND, "record", "-o", output, "--", sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # What the system clears at times.
        env={**os.environ, "TMPDIR": str(tmp_path_factory.mktemp("temporary"))},
    )
    assert command.stdin is not None
    assert command.stdout is not None
    with command.stdin, command.stdout:
        assert command.stdout.readline() == b"begun\n"
        command.send_signal(number)
        assert command.wait(30) == -number
        assert list(tmp_path.iterdir()) == [output]
    assert output.read_bytes() == b"earlier"


def test_without_a_pipeline_there_is_no_trace(tmp_path: Path) -> None:
    output = tmp_path / "out.json.gz"
    done = run("record", "-o", output, "--", sys.executable, "-c", "pass")
    assert done.returncode == 1
    assert "built no pipeline" in done.stderr
    assert not output.exists()


def test_mistakes_are_said_before_anything_runs(script: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere" / "out"
    done = run("record", "-o", nowhere, "--", sys.executable, script)
    assert (done.returncode, done.stdout) == (2, "")
    # The file that is written before it takes that place has another name.
    assert done.stderr.startswith(f"spdl: {nowhere} cannot be written (No such file or directory): name a file in a ")
    done = run("record", "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "which program?" in done.stderr
    (tmp_path / "out").write_text("of yesterday")
    done = run("record", "-o", tmp_path / "out", "--", "no-such-program")
    assert done.returncode == 127
    assert "no program no-such-program" in done.stderr
    assert (tmp_path / "out").read_text() == "of yesterday"
    assert {each.name for each in tmp_path.iterdir()} == {"out", "train.py"}


def test_a_folder_as_the_file_is_a_mistake_before_anything_runs(script: Path, tmp_path: Path) -> None:
    done = run("record", "-o", tmp_path, "--", sys.executable, script)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path} is a folder: name a file for the trace" in done.stderr


def test_a_pipe_is_not_replaced(script: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = run("record", "-o", pipe, "--", sys.executable, script)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{pipe} is a pipe or a device" in done.stderr
    assert pipe.is_fifo()


def test_where_the_folder_of_the_trace_goes_meanwhile_the_first_mistake_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    program = f"import shutil; shutil.rmtree({str(folder)!r})"
    done = run("record", "-o", folder / "out", "--", sys.executable, "-c", program)
    assert done.returncode == 1
    assert "built no pipeline" in done.stderr


def test_a_file_whose_place_is_taken_meanwhile_is_named(tmp_path: Path) -> None:
    output = tmp_path / "out"
    program = f"import os\nos.mkdir({str(output)!r})\n" + SCRIPT
    done = run("record", "-o", output, "--", sys.executable, "-c", program)
    assert done.returncode == 3  # The program's own.
    assert f"spdl: {output} cannot be written (Is a directory)" in done.stderr
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize("status", [0, 3])
def test_where_only_the_trace_fails_the_status_is_the_programs(tmp_path: Path, status: int) -> None:
    # As on a full disk: the command may write no more than a page. The program it starts may.
    command = (
        "import os, resource, signal, sys\n"
        "from spdl.cli import main\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    program = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        + SCRIPT.replace("sys.exit(3)", f"sys.exit({status})")
    )
    (tmp_path / "train.py").write_text(program)
    output = tmp_path / "out.json.gz"
    output.write_bytes(b"earlier")
    done = subprocess.run(
        [sys.executable, "-c", command, "record", "-o", output, "--", sys.executable, tmp_path / "train.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, output.read_bytes()) == (status, b"earlier"), done.stderr
    assert f"{output} cannot be written (File too large)" in done.stderr


def test_a_trace_that_could_not_be_written_whole_spoils_no_other(script: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.json.gz"
    # As on a full disk.
    limited = tmp_path / "limited.py"
    limited.write_text("import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n" + SCRIPT)
    parent = tmp_path / "parent.py"
    parent.write_text(f"import subprocess, sys\nsubprocess.run([sys.executable, {str(limited)!r}])\n" + SCRIPT)

    done = run("record", "-o", output, "--", sys.executable, parent)

    assert done.returncode == 3
    assert "could not be written" in done.stderr
    assert "the pipelines of 1 process;" in done.stderr
    assert list(read(output).processes.values()) == ["parent.py"]
