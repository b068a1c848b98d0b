"""The FFmpeg in the wheel can be replaced by another, with the script that the wheel includes for this."""

import subprocess
import sys
from pathlib import Path

from tests.io.images import write_jpegs
from tests.wheel.conftest import cannot

SCRIPTS = Path(__file__).parent.parent.parent / "scripts" / "bundle"


def shell(command: str, *arguments: str) -> str:
    done = subprocess.run(["bash", "-euc", command, "bash", *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_ffmpeg_is_replaced(wheel: Path, tmp_path: Path) -> None:
    prefix = Path(shell('source "$1/places.sh"; libraries_prefix', str(SCRIPTS)))
    if not (prefix / "complete").exists():
        cannot(f"the libraries of the wheel are not in {prefix}, from where they are to be put in their own place")
    site = tmp_path / "site"
    shell('"$1" -m pip install --quiet --no-deps --target "$2" "$3"', sys.executable, str(site), str(wheel))
    (script,) = site.glob("spdl_turbo-*.dist-info/licenses/third_party/ffmpeg/scripts/replace.sh")
    before = {path.name: path.read_bytes() for path in (site / "spdl_turbo.libs").iterdir()}
    tools = shell('"$1/tools.sh"', str(SCRIPTS))
    said = shell('PATH=$1:$PATH "$2" "$3" "$4"', tools, str(script), str(prefix), str(site))
    assert {Path(line.removeprefix("replaced ")).name for line in said.splitlines()} == set(before)
    after = {path.name: path.read_bytes() for path in (site / "spdl_turbo.libs").iterdir()}
    assert after.keys() == before.keys()
    (photo,) = write_jpegs(tmp_path, 1, 64, 48)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import spdl.io\n"
        "assert spdl.io.__file__.startswith(sys.argv[1])\n"
        "assert spdl.io.load_image(sys.argv[2], filter_desc='hflip,format=rgb24').shape == (48, 64, 3)\n"
        "loaded = [line.split()[-1] for line in open('/proc/self/maps') if 'libavfilter' in line]\n"
        "assert loaded and all(path.startswith(sys.argv[1]) for path in loaded)\n"
    )
    shell('"$1" -I -c "$2" "$3" "$4"', sys.executable, program, str(site), str(photo))
