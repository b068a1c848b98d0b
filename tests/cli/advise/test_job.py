"""The job keeps its arguments, streams, signals, exit status and search path."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.running import run, running
from tests.cli.terminal import press_ctrl_c

from spdl.cli import main

# A busy machine may take long.
pytestmark = pytest.mark.timeout(240)


def advise(*command: str) -> tuple[int, str, str]:
    done = run("advise", "--", *command)
    return done.returncode, done.stdout, done.stderr


def test_status_and_streams() -> None:
    code = "import sys; print(*sys.argv[1:]); print('mine', file=sys.stderr); sys.exit(7)"
    status, output, errors = advise(sys.executable, "-c", code, "--json", "a b", "--")
    assert (status, output) == (7, "--json a b --\n")
    assert errors.startswith("mine\n\nspdl advise\n\nNo DataLoader of PyTorch was read.")


def test_standard_output_is_json_alone_where_the_figures_go_there(tmp_path: Path) -> None:
    # Processes that the job starts write where it does.
    code = "import os; print('epoch 0', flush=True); os.system('echo a child'); raise SystemExit(7)"
    done = run("advise", "--json", "-", "--", sys.executable, "-c", code)
    assert json.loads(done.stdout)["exit_status"] == done.returncode == 7
    assert done.stderr.startswith("epoch 0\na child\n\nspdl advise\n\n")
    # In a file they leave the job's output where it is.
    kept = run("advise", "--json", tmp_path / "figures.json", "--", sys.executable, "-c", code)
    assert kept.stdout == "epoch 0\na child\n"


def test_two_dashes_may_be_left_out() -> None:
    done = run("advise", sys.executable, "-c", "print(1)")
    assert (done.returncode, done.stdout) == (0, "1\n")


def test_a_signal_that_ends_the_job() -> None:
    status, _, _ = advise(sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    assert status == 128 + 9


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1"])
def test_signals_reach_the_job(name: str) -> None:
    code = (
        "import signal, sys, time\n"
        f"signal.signal(signal.{name}, lambda *_: sys.exit(5))\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    with running("advise", "--", sys.executable, "-c", code) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(getattr(signal, name))
        _, errors = process.communicate(timeout=100)
    assert process.returncode == 5
    assert "spdl advise" in errors


COUNTING = """
import signal, time
count = 0
def interrupted(*_):
    global count
    count += 1
signal.signal(signal.SIGINT, interrupted)
print("ready", flush=True)
while not count:
    time.sleep(0.1)
time.sleep(1)
print("interrupted", count, flush=True)
"""


def test_ctrl_c_reaches_the_job_once() -> None:
    done = press_ctrl_c("ready", "advise", "--", sys.executable, "-c", COUNTING)
    assert "interrupted 1\n" in done.stdout
    assert "spdl advise" in done.stdout
    assert done.returncode == 0


def test_the_search_path_is_that_of_the_job_alone(tmp_path: Path) -> None:
    # A Python that runs no file has the current folder first.
    code = "import json, sys; print(json.dumps([sys.path, 'sitecustomize' in sys.modules]))"
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}/no/such/folder"}
    alone = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment
    ).stdout
    spdl = Path(__file__).parents[3] / "src"
    environment["PYTHONPATH"] = f"{environment['PYTHONPATH']}{os.pathsep}{spdl}"
    done = run("advise", "--", sys.executable, "-c", code, environment=environment)
    path, customized = json.loads(done.stdout)
    assert [[it for it in path if it != str(spdl)], customized] == [
        [it for it in json.loads(alone)[0] if it != str(spdl)],
        json.loads(alone)[1],
    ]


def test_a_sitecustomize_of_the_user_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('customized')\n")
    known = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path) + (os.pathsep + known if known else ""))
    done = run("advise", "--", sys.executable, "-c", "import sitecustomize; print(sitecustomize.__file__)")
    # The command's own Python is customized, too.
    assert done.stdout.splitlines()[-2:] == ["customized", str(tmp_path / "sitecustomize.py")]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "no job is given. Write its command after two dashes: spdl advise -- python train.py"),
        (["--"], "no job is given"),
        (["--json", "/no/such/folder/file", "--", "true"], "--json /no/such/folder/file cannot be written"),
    ],
)
def test_mistakes(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_a_program_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--", "no-such-program"]) == 127
    assert capsys.readouterr().err == "spdl: there is no program no-such-program\n"
