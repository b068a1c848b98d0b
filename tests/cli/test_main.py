import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest

from spdl.cli import main
from tests.cli.running import run, running

# A busy machine may take long.
pytestmark = pytest.mark.timeout(240)


def test_help_has_a_line_per_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["--help"])
    assert exit_.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("    demo  ") for line in lines)
    assert any(line.startswith("    bench  ") for line in lines)


def test_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"spdl-turbo {version('spdl-turbo')}\n"


def test_help_and_mistakes_load_nothing_heavy() -> None:
    code = (
        "import sys; from spdl.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'rich', 'PIL', 'matplotlib', 'torch', 'spdl.io', 'spdl.pipeline'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["bench", "images", ".", "--workers", "0"], "argument --workers: '0' is not a whole number of at least 1"),
        (["bench", "images", ".", "--workers", "two"], "argument --workers: 'two' is not a whole number"),
        (["bench", "images", ".", "--size", "0"], "argument --size: '0' is not a whole number"),
        (["bench", "images", ".", "--size", "2.5"], "argument --size: '2.5' is not a whole number"),
        (["bench", "images", ".", "--batch-size", "-1"], "argument --batch-size: '-1' is not a whole number"),
        (["bench", "images", ".", "--rounds", "0"], "argument --rounds: '0' is not a whole number"),
        (["bench", "images", ".", "--seconds", "-3"], "argument --seconds: '-3' is not a number of seconds above 0"),
        (["bench", "images", ".", "--seconds", "0"], "argument --seconds: '0' is not a number of seconds above 0"),
        (["bench", "images", ".", "--seconds", "nan"], "argument --seconds: 'nan' is not a number of seconds above 0"),
        (["bench", "images", ".", "--seconds", "inf"], "argument --seconds: 'inf' is not a number of seconds above 0"),
        (["bench", "images"], "the following arguments are required: DIR"),
        (["bench"], "the following arguments are required: WHAT"),
        ([], "the following arguments are required: COMMAND"),
        (["fly"], "invalid choice: 'fly'"),
    ],
)
def test_mistyped_options(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert complaint in capsys.readouterr().err.splitlines()[-1]


def test_a_broken_installation(photos: Path) -> None:
    done = run("bench", "images", photos, before="sys.modules['numpy'] = None")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("spdl: import of numpy halted")


def test_output_that_nobody_reads_any_more(photos: Path) -> None:
    arguments = ["bench", "images", str(photos), "--no-peers", "--seconds", "2"]
    with running(*arguments) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 128 + signal.SIGPIPE


def test_sigterm_ends_it_in_order(photos: Path) -> None:
    arguments = ["bench", "images", str(photos), "--no-peers", "--seconds", "3600"]
    with running(*arguments) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        time.sleep(0.5)
        process.terminate()
        assert process.wait(50) == 128 + signal.SIGTERM
        assert process.stderr.read() == ""


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    folder = tmp_path / "caf\udce9"
    folder.mkdir()
    done = run("bench", "images", folder)
    assert done.returncode == 2
    assert done.stderr.startswith(f"spdl: {tmp_path}/caf\\udce9 is empty")
