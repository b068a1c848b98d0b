"""The wheel installs, and the README's example runs, in a new environment with only pip: no compiler, no FFmpeg."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.io.images import write_jpegs
from tests.wheel.conftest import cannot

README = Path(__file__).parent.parent.parent / "README.md"

# Puts an empty file over each FFmpeg and libjpeg-turbo library of the system, in a private view of the file system.
HIDE = """
for library in /usr/lib/*/lib{av,sw,postproc,jpeg,turbojpeg}*.so* /usr/local/lib/lib{av,sw,jpeg}*.so*; do
  [ -e "$library" ] && "$0" --bind /dev/null "$library"
done
exec "$@"
"""


@pytest.fixture(scope="module")
def hidden() -> list[str]:
    """Return the start of a command line that hides the system's libraries from the rest of it."""
    unshare, bash, mount, true = (shutil.which(name) or name for name in ("unshare", "bash", "mount", "true"))
    command = [unshare, "--user", "--map-root-user", "--mount", bash, "-c", HIDE, mount]
    if shutil.which(unshare) is None or subprocess.run([*command, true], check=False, capture_output=True).returncode:
        cannot("this system gives no view of the file system of one's own (unshare), to hide its libraries in")
    return command


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory, hidden: list[str]) -> Path:
    """Return the interpreter of a new environment with the wheel installed."""
    environment = tmp_path_factory.mktemp("fresh") / "environment"
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}{sys.abiflags}"
    subprocess.run([str(base), "-m", "venv", str(environment)], check=True, capture_output=True)
    interpreter = environment / "bin" / "python"
    pip = [str(interpreter), "-m", "pip", "install", "--quiet", "--find-links", str(wheel.parent), "spdl-turbo"]
    result = subprocess.run([*hidden, *pip], env=surroundings(environment), check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return interpreter


def surroundings(environment: Path) -> dict[str, str]:
    """Return the variables of a shell in that environment. PATH has only its commands, so there is no compiler."""
    kept = ("HOME", "PIP_", "SSL_", "HTTP_", "HTTPS_", "NO_", "http_", "https_", "no_")
    return {
        **{name: value for name, value in os.environ.items() if name.startswith(kept)},
        "PATH": str(environment / "bin"),
    }


def run(hidden: list[str], python: Path, program: str, folder: Path) -> str:
    command = [*hidden, str(python), "-W", "error", "-c", program]
    environment = surroundings(python.parent.parent)
    result = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def example() -> str:
    """Return the README's program for functions of one's own, which needs only the package."""
    programs: list[str] = re.findall(
        r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return next(program for program in programs if "PipelineBuilder" in program)


@pytest.mark.timeout(300)
def test_the_pipeline_of_the_readme_runs(hidden: list[str], python: Path, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    write_jpegs(photos, 3, width=50, height=40)
    assert run(hidden, python, example(), tmp_path) == f"{3 * 50 * 40 * 3}\n"


@pytest.mark.timeout(300)
def test_all_that_is_installed_is_ours_and_numpy(hidden: list[str], python: Path, tmp_path: Path) -> None:
    program = (
        "import importlib.metadata as m; print(*sorted({d.name for d in m.distributions()} - {'pip', 'setuptools'}))"
    )
    assert run(hidden, python, program, tmp_path) == "numpy spdl-turbo\n"


@pytest.mark.timeout(300)
def test_the_ffmpeg_in_use_is_the_wheels_own(hidden: list[str], python: Path, tmp_path: Path) -> None:
    program = (
        "import pathlib, spdl.io.utils as u; print(u.get_ffmpeg_versions()['libavcodec'][0], u.get_ffmpeg_license())\n"
        "print(*sorted({line.split()[-1] for line in pathlib.Path('/proc/self/maps').read_text().splitlines()"
        " if 'libav' in line or 'libsw' in line}))"
    )
    versions, mapped = run(hidden, python, program, tmp_path).splitlines()
    assert versions == "61 LGPL version 2.1 or later"
    assert {Path(path).parent.name for path in mapped.split()} == {"spdl_turbo.libs"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["eq", "boxblur", "histeq", "perspective"])
def test_filters_under_the_gpl_are_missing_with_a_remedy(
    hidden: list[str], python: Path, tmp_path: Path, name: str
) -> None:
    path = write_jpegs(tmp_path, 1)[0]
    program = (
        "import spdl.io\n"
        "try:\n"
        f"    spdl.io.load_image({path!r}, filter_desc={name!r})\n"
        "except RuntimeError as error:\n"
        "    print(error)\n"
    )
    printed = run(hidden, python, program, tmp_path)
    assert f"there is no filter '{name}'" in printed
    assert "pip install --force-reinstall --no-deps --no-binary spdl-turbo spdl-turbo" in printed
