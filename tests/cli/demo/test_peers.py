import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.wheels import Wheelhouse

from spdl.cli._common.console import Console
from spdl.cli._demo import peers
from spdl.cli._demo.peers import PeerUnavailable, reference_environment, torch_environment


@pytest.fixture
def console(capsys: pytest.CaptureFixture[str]) -> Console:
    assert capsys is not None  # With this fixture, standard output is no terminal.
    return Console()


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "find_spec", lambda _name: None)


@pytest.fixture
def peer_wheels(wheelhouse: Wheelhouse) -> Wheelhouse:
    for name in ("numpy", "pillow"):
        wheelhouse.add(name, "1.0", {f"{name}.py": b""})
    wheelhouse.add("spdl", "0.8.0", {"spdl.py": b"ours = False"})
    wheelhouse.add("torch", "2.13.0", {"torch.py": b""}, requires=["numpy"])
    return wheelhouse


@pytest.mark.usefixtures("peer_wheels")
def test_the_reference_lives_apart_and_is_installed_once(
    console: Console, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = reference_environment(console)
    assert f"installing spdl==0.8.0 into {cache}/peers/reference-3." in capsys.readouterr().out
    # It keeps its own modules even with ours on the path.
    monkeypatch.setenv("PYTHONPATH", str(Path(peers.__file__).parents[3]))
    done = subprocess.run(
        [*environment.command, "-c", "import spdl; print(spdl.ours)"], check=True, capture_output=True
    )
    assert done.stdout == b"False\n"

    monkeypatch.delenv("PIP_FIND_LINKS")
    assert reference_environment(console) == environment
    assert capsys.readouterr().out == ""


def forget_the_mark(folder: Path) -> None:
    (folder / "whole.json").unlink()


def ask_for_another_version(folder: Path) -> None:
    (folder / "whole.json").write_text(json.dumps({"requirements": ["spdl==0.7.0"]}))


def remove_the_interpreter(folder: Path) -> None:
    (folder / "bin" / "python").unlink()


@pytest.mark.usefixtures("peer_wheels")
@pytest.mark.parametrize("damage", [forget_the_mark, ask_for_another_version, remove_the_interpreter])
def test_an_environment_that_is_not_whole_is_made_anew(
    damage: Callable[[Path], None], console: Console, cache: Path
) -> None:
    environment = reference_environment(console)
    (folder,) = [path for path in (cache / "peers").iterdir() if path.is_dir()]
    (folder / "leftover").touch()
    damage(folder)
    assert reference_environment(console) == environment
    subprocess.run([*environment.command, "-c", "import spdl, numpy"], check=True)
    assert not (folder / "leftover").exists()


def test_no_index(console: Console) -> None:
    with pytest.raises(PeerUnavailable, match=r"^pip cannot install spdl==0\.8\.0: No matching distribution found for"):
        reference_environment(console)


@pytest.mark.usefixtures("without_torch", "peer_wheels")
def test_torch_without_cuda_is_installed(console: Console, cache: Path) -> None:
    environment = torch_environment(console, install=True)
    assert Path(environment.command[0]).is_relative_to(cache)
    subprocess.run([*environment.command, "-c", "import torch, pillow"], check=True)


@pytest.mark.usefixtures("without_torch", "peer_wheels")
def test_torch_is_large_so_it_is_installed_only_when_asked_for(console: Console, cache: Path) -> None:
    with pytest.raises(PeerUnavailable, match=r"not installed; --peers installs it once, 200 MB to download, 800 MB"):
        torch_environment(console, install=False)
    assert not list(cache.rglob("torch.py"))
    installed = torch_environment(console, install=True)
    # One that is there takes part without being asked for.
    assert torch_environment(console, install=False) == installed


@pytest.mark.usefixtures("without_torch")
def test_torch_with_cuda_is_refused(console: Console, peer_wheels: Wheelhouse, cache: Path) -> None:
    peer_wheels.add("nvidia-cublas", "1.0", {"cublas.py": b""})
    peer_wheels.add("torch", "2.13.0", {"torch.py": b""}, requires=["nvidia-cublas"])
    with pytest.raises(PeerUnavailable, match="pip would install 1 CUDA package with it; a CPU build for this Python"):
        torch_environment(console, install=True)
    assert not list(cache.rglob("cublas.py"))


def test_torch_that_is_here_is_used(console: Console, cache: Path) -> None:
    pytest.importorskip("torch")
    torch_environment(console, install=False)
    assert not cache.exists()
