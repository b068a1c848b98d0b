"""The programs that the docs show run as they stand, and print what the docs say they print."""

import doctest
import importlib.util
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import wave
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from PIL import Image
from tests.io.av.media import clip
from tests.io.images import make_jpeg
from tests.io.tars import make_tar
from tests.source.packed_files import write_mds
from tests.store.s3_server import aws_environment, needs_s3, running_s3

DOCS = Path(__file__).parents[2] / "docs"

# A heading; a program, and right below it its output; or another block, in which `#` begins no heading. `...` in the
# output stands for text that differs from run to run.
PART = re.compile(
    r"^#+ (?P<heading>[^\n]+)$"
    r"|^```python\n(?P<code>.*?)^```$(?:\n\n```text\n(?P<output>.*?)^```$)?"
    r"|^ *```.*?^ *```$",
    re.MULTILINE | re.DOTALL,
)
# The line of a traceback that marks a part of the line above. Python versions differ in the part that they mark.
MARKED = re.compile(r"^ +[~^]+\n", re.MULTILINE)
# Lines that complete no program, such as those that need a cluster, are marked `py`.
ANY_PYTHON = re.compile(r"^\s*(?:```|~~~)\s*\{?python", re.MULTILINE)

# What `make test-pages` installs.
ON_TORCH = ("torchvision", "albumentations", "lightning", "accelerate")
ON_PAGES = (*ON_TORCH, "h5py")
OTHERS = ("webdataset", "streaming", "datasets", "ray", *ON_PAGES)
OPTIONAL = ("pyarrow", "opentelemetry", "tqdm", *OTHERS)


# The bucket that programs read from.
BUCKET = "bucket"

# What a program that begins with such a line is run by: as many processes as it says.
TORCHRUN = re.compile(r"# torchrun --nproc-per-node 2 ")
# What runs one that may import torchvision, also by way of Lightning or Streaming.
BESIDE_TORCHVISION = (str(Path(__file__).with_name("beside_torchvision.py")),)
LAUNCHER = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


class Program(NamedTuple):
    """A program of a page. Its name is that of its section and a number, which edits elsewhere leave alone."""

    name: str
    line: int
    code: str
    output: str


def programs(page: Path) -> list[Program]:
    text = page.read_text(encoding="utf-8")
    found: list[Program] = []
    section, names = "", Counter[str]()
    for match in PART.finditer(text):
        if match["heading"]:
            section = re.sub(r"\W+", "-", match["heading"].lower()).strip("-")
        elif match["code"] is not None:
            name = f"{page.relative_to(DOCS)}#{section}"
            names[name] += 1
            line = text.count("\n", 0, match.start()) + 1
            found.append(Program(f"{name}:{names[name]}", line, match["code"], match["output"] or ""))
    return found


def needs_torch(code: str) -> bool:
    """Return whether a program imports PyTorch, or uses a loader that makes its tensors."""
    makes_tensors = re.search(r"(Image|Clip|Audio|Array|PyTorchData)Loader\(", code) and 'output="numpy"' not in code
    return bool(re.search(r"(import|from) torch\b", code)) or bool(makes_tensors)


def launcher(code: str) -> tuple[str, ...]:
    """Return the arguments of Python that come before the file of a program."""
    if TORCHRUN.match(code):
        return LAUNCHER
    return BESIDE_TORCHVISION if any(imports(code, name) for name in ("streaming", *ON_TORCH)) else ()


def imports(code: str, name: str) -> bool:
    return bool(re.search(rf"(import|from) {name}\b", code))


def is_timed(code: str) -> bool:
    """Return whether what a program prints follows from how long things take."""
    return bool(re.search(r"\bsleep\(|\btimeout=", code))


def reads_s3(code: str) -> bool:
    """Return whether a program reads from the bucket. What stands in a comment is not read."""
    return bool(re.search(rf"^[^#\n]*s3://{BUCKET}/", code, re.MULTILINE))


def missing(code: str) -> list[str]:
    """Return the optional packages that a program needs and that are not installed."""
    needed = [name for name in OPTIONAL if imports(code, name)] + ["torch"] * needs_torch(code)
    return [name for name in dict.fromkeys(needed) if importlib.util.find_spec(name) is None]


def whole(page: Path) -> list[Program]:
    """Return the programs of a page.

    If the page says that its blocks follow each other in one file, they are one program. If PyTorch is not installed,
    it ends before the block that imports it.
    """
    blocks = programs(page)
    if ONE_PROGRAM not in page.read_text(encoding="utf-8"):
        return blocks
    if importlib.util.find_spec("torch") is None:
        blocks = blocks[: next((i for i, block in enumerate(blocks) if needs_torch(block.code)), None)]
    if not blocks:
        return []
    code = f"\nprint({BETWEEN!r})\n".join(block.code for block in blocks)
    return [Program(blocks[0].name, blocks[0].line, code, f"{BETWEEN}\n".join(block.output for block in blocks))]


ONE_PROGRAM = "<!-- One program: the blocks below follow each other in one file. -->"
BETWEEN = "-- the next block --"

PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("case_studies/*.md"), *DOCS.glob("how_do_i/*.md")])
PROGRAMS = [program for page in PAGES for program in whole(page)]


def cases(*, s3: bool) -> list[Any]:
    """Return the programs that read from S3, or the others, as parameters of a test, with what keeps each from running
    here.
    """
    found = []
    for program in PROGRAMS:
        if reads_s3(program.code) != s3:
            continue
        absent = missing(program.code)
        skip = pytest.mark.skipif(bool(absent), reason=f"needs {' and '.join(absent)}")
        marks = [skip, *([pytest.mark.ray] if imports(program.code, "ray") else [])]
        if any(imports(program.code, name) for name in ON_PAGES):
            marks.append(pytest.mark.pages)
        found.append(pytest.param(program, marks=marks, id=program.name))
    return found


def write_photos(folder: Path) -> None:
    """Write the photos that the page asks readers to have."""
    for number, name in enumerate(("cats", "dogs")):
        (folder / "photos" / name).mkdir(parents=True)
        for index in range(20):
            data = make_jpeg(100 + 4 * index, 80, seed=100 * number + index)
            (folder / "photos" / name / f"{index:04d}.jpg").write_bytes(data)


def write_clips(folder: Path) -> None:
    """Write the videos that the page asks readers to have."""
    (folder / "clips").mkdir()
    for index in range(3):
        shutil.copyfile(clip("h264.mp4"), folder / "clips" / f"{index}.mp4")


def write_sounds(folder: Path) -> None:
    """Write the sounds that the page asks readers to have."""
    (folder / "sounds").mkdir()
    for index in range(3):
        with wave.open(str(folder / "sounds" / f"{index}.wav"), "wb") as sound:
            sound.setparams((2, 2, 44100, 0, "NONE", ""))
            sound.writeframes(bytes(range(200)) * (44100 * 4 * (index + 1) // 200))


def write_shards(folder: Path) -> None:
    """Write the archives and the folder of shards that the page asks readers to have."""
    (folder / "shards").mkdir()
    photos = [make_jpeg(80, 60, seed=number) for number in range(40)]
    shards = []
    for first in range(0, 40, 10):
        numbers = range(first, first + 10)
        pairs = [
            ((f"{number:06}.jpg", photos[number]), (f"{number:06}.cls", b"%d" % (number % 3))) for number in numbers
        ]
        archive = make_tar([member for pair in pairs for member in pair])
        (folder / "shards" / f"train-{first // 10:04}.tar").write_bytes(archive)
        parts = [(len(photos[number]), photos[number], number % 3) for number in numbers]
        shards.append([struct.pack("<I", size) + photo + struct.pack("<q", label) for size, photo, label in parts])
    write_mds(folder / "mds", {"image": ("jpeg", None), "label": ("int", 8)}, shards)


def write_coco(folder: Path) -> None:
    """Write the photos and the annotations of objects that the page asks readers to have."""
    (folder / "coco" / "photos").mkdir(parents=True)
    boxes = {1: [10, 20, 40, 30], 2: [50, 5, 30, 60]}
    images: list[Any] = []
    annotations: list[Any] = []
    for number in range(7):
        (folder / "coco" / "photos" / f"{number}.jpg").write_bytes(make_jpeg(100, 80, seed=number))
        images.append({"id": 100 + number, "file_name": f"{number}.jpg", "width": 100, "height": 80})
        for category in ([1], [2], [1, 2])[number % 3]:
            annotations.append(
                {
                    "id": len(annotations),
                    "image_id": 100 + number,
                    "category_id": category,
                    "bbox": boxes[category],
                    "iscrowd": 0,
                }
            )
    categories = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    content = json.dumps({"images": images, "annotations": annotations, "categories": categories})
    (folder / "coco" / "instances.json").write_text(content, encoding="utf-8")


def write_voc(folder: Path) -> None:
    """Write the photos and the palette masks that the page asks readers to have."""
    root = folder / "VOC2012"
    for name in ("JPEGImages", "SegmentationClass", "ImageSets/Segmentation"):
        (root / name).mkdir(parents=True)
    for number in range(8):
        (root / "JPEGImages" / f"{number}.jpg").write_bytes(make_jpeg(80, 60, seed=number))
        mask = Image.new("P", (80, 60))
        mask.putpalette([0, 0, 0, 128, 0, 0, 0, 128, 0] + [224] * 759)
        mask.paste(255, (9, 9, 51, 41))
        mask.paste(1 + number % 2, (10, 10, 50, 40))
        mask.save(root / "SegmentationClass" / f"{number}.png")
    names = "".join(f"{number}\n" for number in range(8))
    (root / "ImageSets" / "Segmentation" / "train.txt").write_text(names, encoding="utf-8")


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Run a server on this machine with photos and shards in its bucket; return the variables that lead to it."""
    folder = tmp_path_factory.mktemp("bucket")
    write_photos(folder)
    write_shards(folder)
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*")}
    with running_s3(BUCKET, files) as url:
        yield aws_environment(url)


def check_what_it_prints(program: Program, tmp_path: Path, variables: dict[str, str]) -> None:
    """Run a program in a folder, with variables of the environment, and compare.

    Where the output follows from how long things take, a machine that does other things may need some tries. A program
    that the page is wrong about never prints what it says.
    """
    tries = 8 if is_timed(program.code) else 1
    differences: list[str] = []
    while len(differences) < tries:
        folder = tmp_path / str(len(differences))
        folder.mkdir()
        differences.append(run_and_compare(program, folder, variables))
        if not differences[-1]:
            return
    pytest.fail(f"the program in line {program.line} prints something else\n{differences[-1]}")


def run_and_compare(program: Program, tmp_path: Path, variables: dict[str, str]) -> str:
    """Run a program in a folder, and return how its output differs from what the page says; empty if it does not."""
    (tmp_path / "example.py").write_text(program.code, encoding="utf-8")
    if "photos" in program.code:
        write_photos(tmp_path)
    if "clips/" in program.code or '"clips"' in program.code:
        write_clips(tmp_path)
    if "sounds/" in program.code:
        write_sounds(tmp_path)
    if "shards/" in program.code or '"mds"' in program.code:
        write_shards(tmp_path)
    if "coco/" in program.code:
        write_coco(tmp_path)
    if "VOC2012" in program.code:
        write_voc(tmp_path)
    # What other libraries warn of is not ours to mend.
    warnings = "ignore" if any(imports(program.code, name) for name in OTHERS) else "error"
    done = subprocess.run(
        [sys.executable, "-u", "-W", warnings, *launcher(program.code), "example.py"],
        cwd=tmp_path,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=150,
        check=False,
    )

    assert done.returncode == 0, f"the program in line {program.line} fails\n{done.stdout}"
    printed = MARKED.sub("", done.stdout)
    checker, options = doctest.OutputChecker(), doctest.ELLIPSIS
    example = doctest.Example(program.code, program.output)
    if checker.check_output(program.output, printed, options):
        return ""
    return checker.output_difference(example, printed, options)


# Some programs import PyTorch, possibly on a busy machine.
@pytest.mark.timeout(300)
@pytest.mark.parametrize("program", cases(s3=False))
def test_program_prints_what_the_page_says(program: Program, tmp_path: Path) -> None:
    # Without it, torchrun sets it and tells so.
    check_what_it_prints(program, tmp_path, {"OMP_NUM_THREADS": "1"} if TORCHRUN.match(program.code) else {})


@needs_s3
@pytest.mark.parametrize("program", cases(s3=True))
def test_program_that_reads_s3_prints_what_the_page_says(program: Program, tmp_path: Path, s3: dict[str, str]) -> None:
    check_what_it_prints(program, tmp_path, s3)


@pytest.mark.parametrize(
    "page", ["execution_model.md", "failures.md", "shutdown.md", "epochs.md", "frames.md", "arrays.md", "filters.md"]
)
def test_page_shows_programs(page: str) -> None:
    assert sum(program.name.startswith(f"{page}#") for program in PROGRAMS) > 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_every_python_block_is_run(page: Path) -> None:
    assert len(ANY_PYTHON.findall(page.read_text(encoding="utf-8"))) == len(programs(page))


@pytest.mark.parametrize(
    "page", [*PAGES, DOCS.parent / "CONTRIBUTING.md"], ids=lambda page: str(page.relative_to(DOCS.parent))
)
def test_every_block_says_what_it_is(page: Path) -> None:
    # An indented block has neither colours nor a button that copies it.
    outside = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert not re.findall(r"\n\n( {4,}(?![*+-]|\d+\.)\S.*)", outside)
