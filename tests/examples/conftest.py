"""Fixtures for the tests of the example programs."""

from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path

import pytest

from _program.plots import Line, Panel, draw
from tests.io.images import make_jpeg

CLASSES = ("cats", "dogs")
PER_CLASS = 8


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a sub-folder of photos for each class."""
    root = tmp_path_factory.mktemp("photos")
    for index, name in enumerate(CLASSES):
        (root / name).mkdir()
        for number in range(PER_CLASS):
            data = make_jpeg(100 + 10 * index, 80, seed=100 * index + number)
            (root / name / f"{number}.jpg").write_bytes(data)
    return root


@pytest.fixture(scope="session")
def without_pillow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that hides Pillow from a Python that finds it first."""
    folder = tmp_path_factory.mktemp("without_pillow")
    (folder / "PIL").mkdir()
    (folder / "PIL" / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'PIL'\", name='PIL')\n")
    return folder


@pytest.fixture(scope="package", autouse=True)
def own_fork_server() -> Iterator[None]:
    """Let the programs start a fork server that imports what they need.

    One that tests of other folders have started imports nothing. Each process of a program would import PyTorch again.
    """
    server = forkserver._forkserver
    server._stop()  # type: ignore[attr-defined]
    yield
    server._stop()  # type: ignore[attr-defined]
    server.set_forkserver_preload(["__main__"])


@pytest.fixture(scope="session", autouse=True)
def opened_fonts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let matplotlib open the fonts that it keeps open for the life of the process."""
    pytest.importorskip("matplotlib", reason="the programs draw with matplotlib")
    lines = {name: Line([1, 2], [3, 4]) for name in ("a", "b")}
    draw([Panel("title", "x", "y", lines)], "title", tmp_path_factory.mktemp("fonts") / "picture.png")
