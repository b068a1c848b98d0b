"""Files made here are read in all ways, and what becomes of each is told."""

import io
import tarfile
import wave
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.conformance.examine import SUBJECTS, Subject, examine
from tests.conformance.finding import Finding, judge
from tests.conformance.formats import ARRAYS, IMAGES
from tests.conformance.reading import Arrays
from tests.io.images import encode, make_image, make_jpeg


def find(file_format: str, path: Path) -> Finding:
    ways = examine(SUBJECTS[file_format], path, lambda _: None)
    return judge(path.name, file_format, str(path), {"ways": ways})


def write(folder: Path, content: bytes, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def orientation(number: int) -> bytes:
    exif = Image.Exif()
    exif[274] = number
    return exif.tobytes()


def gif() -> bytes:
    image = Image.fromarray(np.arange(70, dtype=np.uint8).reshape(7, 10), "P")
    image.putpalette(bytes(range(256)) * 3)
    return encode(image, "GIF", transparency=3)


def gray16(file_format: str) -> bytes:
    return encode(Image.fromarray(np.arange(0, 65000, 650, dtype=np.uint16).reshape(10, 10)), file_format)


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npz(*, objects: bool) -> bytes:
    stream = io.BytesIO()
    last = np.array([None, 1]) if objects else np.array(1)
    np.savez_compressed(stream, first=np.arange(6.0).reshape(2, 3), second=np.array("text"), last=last)
    return stream.getvalue()


def tar(compression: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=f"w:{compression}") as archive:  # type: ignore[call-overload]
        for name in ("a.txt", "b" * 200, "a.txt"):
            member = tarfile.TarInfo(name)
            member.size = 5
            archive.addfile(member, io.BytesIO(name[:5].encode()))
        archive.addfile(tarfile.TarInfo("folder"))
    return stream.getvalue()


def archive(compression: int) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as packed:
        packed.writestr("a.txt", "text" * 30)
        packed.writestr("a.npy", npy(np.arange(5)))
    return stream.getvalue()


def wav(width: int) -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as sound:
        sound.setparams((2, width, 8000, 0, "NONE", ""))
        sound.writeframes(np.random.default_rng(0).bytes(240 * width))
    return stream.getvalue()


EQUAL: dict[str, Callable[[], bytes]] = {
    "JPEG": lambda: make_jpeg(50, 40),
    "JPEG, gray": lambda: encode(make_image(50, 40).convert("L"), "JPEG"),
    "JPEG, CMYK": lambda: encode(make_image(50, 40).convert("CMYK"), "JPEG"),
    "JPEG, to be turned": lambda: make_jpeg(50, 40, exif=orientation(6)),
    "PNG": lambda: encode(make_image(50, 40), "PNG"),
    "PNG, alpha": lambda: encode(make_image(50, 40).convert("RGBA"), "PNG"),
    "PNG, 16 bits": lambda: gray16("PNG"),
    "TIFF, 16 bits": lambda: gray16("TIFF"),
    "TIFF, to be turned": lambda: encode(make_image(50, 40), "TIFF", exif=orientation(8)),
    "GIF, transparent": gif,
    "TIFF, floats": lambda: encode(Image.fromarray(np.linspace(-20, 300, 80, dtype=np.float32).reshape(8, 10)), "TIFF"),
    "TIFF, signed": lambda: encode(Image.fromarray(np.arange(-200, 600, 10, dtype=np.int32).reshape(8, 10)), "TIFF"),
    "PNM": lambda: encode(make_image(50, 40), "PPM"),
    "npy": lambda: npy(np.arange(12).reshape(3, 4).T),
    "npy, text": lambda: npy(np.array(["a", "bc"])),
    "npz": lambda: npz(objects=False),
    "npz, objects": lambda: npz(objects=True),
    "tar": lambda: tar(""),
    "tar, compressed": lambda: tar("xz"),
    "zip": lambda: archive(zipfile.ZIP_STORED),
    "zip, compressed": lambda: archive(zipfile.ZIP_DEFLATED),
}


@pytest.mark.parametrize("kind", EQUAL)
def test_sound_files_are_equal(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, EQUAL[kind]())
    assert find(kind.partition(",")[0], path) == Finding("file", kind.partition(",")[0], "equal")
    assert [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize("width", [1, 2, 4])
def test_sounds_are_equal(tmp_path: Path, width: int) -> None:
    pytest.importorskip("soundfile")
    assert find("wav", write(tmp_path, wav(width))).outcome == "equal"
    # Those of 24 bits are no array.
    refused = find("wav", write(tmp_path, wav(3)))
    assert (refused.outcome, refused.theirs) == ("refused", "samples: int32 (120, 2)")


@pytest.mark.parametrize("file_format", [*IMAGES, *ARRAYS])
def test_text_is_refused_by_both(tmp_path: Path, file_format: str) -> None:
    if (oracle := {"wav": "soundfile", "HEIC": "pillow_heif"}.get(file_format)) is not None:
        pytest.importorskip(oracle)
    found = find(file_format, write(tmp_path, b"<html>404</html>\n" * 50))
    assert (found.outcome, found.label) == ("both refuse", "file")
    assert found.ours.startswith("RuntimeError: " if file_format in IMAGES else "FormatError: ")
    assert str(tmp_path) not in found.ours + found.theirs


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF, 16 bits", "npy", "npz", "zip"])
def test_truncated_files_are_refused_by_both(tmp_path: Path, kind: str) -> None:
    content = EQUAL[kind]()
    found = find(kind.partition(",")[0], write(tmp_path, content[: len(content) // 8]))
    assert found.outcome == "both refuse"


def test_a_member_that_only_the_oracle_reads_is_refused(tmp_path: Path) -> None:
    found = find("zip", write(tmp_path, archive(zipfile.ZIP_BZIP2)))
    assert (found.outcome, found.way) == ("refused", "load_npz")
    assert "compressed by method 12" in found.ours


def test_a_tiff_is_read_as_it_is_stored(tmp_path: Path) -> None:
    # Pillow turns it while it loads, so the oracle turns it back.
    oracle = SUBJECTS["TIFF"].oracle
    image = make_image(50, 40)
    for number in range(1, 9):
        data = encode(image, "TIFF", exif=orientation(number))
        stored = oracle(tmp_path, data)["stored"]
        assert isinstance(stored, np.ndarray)
        np.testing.assert_array_equal(stored, np.asarray(image))


@pytest.mark.parametrize("number", range(1, 9))
def test_a_heic_is_read_as_it_is_stored_and_upright(tmp_path: Path, number: int) -> None:
    # libheif turns it while it loads, so the oracle turns it back.
    heif = pytest.importorskip("pillow_heif")
    image = make_image(50, 40)
    content = io.BytesIO()
    picture = heif.from_pillow(image)
    picture.info["exif"] = orientation(number)
    picture.save(content, quality=-1, chroma=444, matrix_coefficients=0)
    path = write(tmp_path, content.getvalue())
    assert find("HEIC", path).outcome == "equal"
    stored = SUBJECTS["HEIC"].oracle(path, content.getvalue())["stored"]
    assert isinstance(stored, np.ndarray)
    np.testing.assert_array_equal(stored, np.asarray(image))


def planted(ours: Any, theirs: Any, *, errors: tuple[str, ...] = ("ValueError",)) -> Subject:
    def give(result: Any) -> Arrays:
        if isinstance(result, Exception):
            raise result
        return {"pixels": np.asarray(result)}

    return Subject(lambda *_: give(theirs), {"sound": lambda *_: give(theirs), "ours": lambda *_: give(ours)}, errors)


def test_wrong_pixels_are_told(tmp_path: Path) -> None:
    right = np.zeros((2, 3), np.uint8)
    wrong = right.copy()
    wrong[1, 2] = 60
    begun: list[str] = []
    path = write(tmp_path, b"")
    found = judge("label", "PNG", str(path), {"ways": examine(planted(wrong, right), path, begun.append)})
    assert found == Finding(
        "label", "PNG", "different", "ours", "pixels[1, 2] = 60", "pixels[1, 2] = 0", largest=60.0, mean=10.0
    )
    assert begun == ["the oracle", "sound", "ours"]


@pytest.mark.parametrize(
    ("ours", "theirs", "outcome", "told"),
    [
        (ValueError("no"), 1, "refused", ("ValueError: no", "pixels: int64 ()")),
        (ValueError("no"), OSError("neither"), "both refuse", ("ValueError: no", "OSError: neither")),
        (KeyError("no"), 1, "failed", ("KeyError: 'no'", "pixels: int64 ()")),
        (KeyError("no"), OSError("no"), "failed", ("KeyError: 'no'", "OSError: no")),
        (MemoryError(), 1, "failed", ("MemoryError: ", "pixels: int64 ()")),
        (1, OSError("no"), "read", ("pixels: int64 ()", "OSError: no")),
        (1, 1.0, "different", ("pixels: int64 ()", "pixels: float64 ()")),
    ],
)
def test_planted_outcomes_are_told(tmp_path: Path, ours: Any, theirs: Any, outcome: str, told: tuple[str, str]) -> None:
    path = write(tmp_path, b"")
    subject = planted(ours, theirs)
    del subject.ways["sound"]
    found = judge("label", "PNG", str(path), {"ways": examine(subject, path, lambda _: None)})
    assert (found.outcome, found.ours, found.theirs) == (outcome, *told)


def test_a_way_that_is_not_meant_is_not_judged(tmp_path: Path) -> None:
    subject = planted(1, 1)
    subject.ways["none"] = lambda *_: None
    assert examine(subject, write(tmp_path, b""), lambda _: None)["none"]["outcome"] == "equal"


def test_the_worst_way_is_told() -> None:
    def way(outcome: str, largest: float | None = None) -> dict[str, Any]:
        return {
            "outcome": outcome,
            "ours": f"/a/b at 0x7f00: {outcome}",
            "theirs": "",
            "largest": largest,
            "mean": largest,
        }

    ways = {"one": way("equal"), "two": way("refused"), "three": way("different", 2.0), "four": way("different", 3.0)}
    found = judge("label", "PNG", "/a/b", {"ways": ways})
    assert (found.outcome, found.way, found.largest) == ("different", "three", 3.0)
    assert found.ours == "/a/b: different"
    ways["five"] = way("different")
    assert judge("label", "PNG", "/a/b", {"ways": ways}).largest is None
    ways["six"] = way("failed")
    assert judge("label", "PNG", "/a/b", {"ways": ways}).way == "six"
