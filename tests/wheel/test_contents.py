"""The contents of the wheel: the right libraries and licences, nothing under the GPL, nothing that disturbs others."""

import json
import re
import shutil
import subprocess
import zipfile
from importlib.metadata import PackageMetadata, PathDistribution
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from packaging.licenses import canonicalize_license_expression
from tests.wheel import elf
from tests.wheel.conftest import cannot


@pytest.fixture(scope="module", autouse=True)
def binutils() -> None:
    if shutil.which("readelf") is None:
        cannot("needs binutils")


SYSTEM = {
    "libc.so.6",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}
BUNDLED = {"libdav1d", "libavcodec", "libavfilter", "libavformat", "libavutil", "libswresample", "libswscale"}

# One sentence of each text, as its author wrote it.
NOTICES = {
    "dav1d/COPYING": "VideoLAN and dav1d authors",
    "ffmpeg/COPYING.LGPLv2.1": "GNU LESSER GENERAL PUBLIC LICENSE",
    "libavif/LICENSE": "Joe Drago",
    "libdeflate/COPYING": "Eric Biggers",
    "libjpeg-turbo/LICENSE.md": "The Modified (3-clause) BSD License",
    "libjpeg-turbo/README.ijg": "Thomas G. Lane",
    "libtiff/LICENSE.md": "Silicon Graphics",
    "libvpx/LICENSE": "The WebM Project authors",
    "libvpx/PATENTS": "Additional IP Rights Grant (Patents)",
    "libwebp/COPYING": "Google Inc.",
    "libwebp/PATENTS": "Additional IP Rights Grant (Patents)",
    "libyuv/LICENSE": "The LibYuv Project Authors",
    "libyuv/PATENTS": "Additional IP Rights Grant (Patents)",
    "libzstd/LICENSE": "Meta Platforms",
    "nanobind/LICENSE": "Wenzel Jakob",
    "nanobind/robin_map.txt": "Thibaut Goetghebuer-Planchon",
    "openjpeg/LICENSE": "Universite catholique de Louvain",
    "opus/COPYING": "Xiph.Org",
    "zig/LICENSE": "Zig contributors",
    "zig/libcxx.txt": "LLVM Exceptions to the Apache 2.0 License",
    "zlib/LICENSE": "Jean-loup Gailly",
}


PAGE = Path(__file__).parent.parent.parent / "docs" / "install.md"


def rows(header: str) -> dict[str, list[str]]:
    """Return the table of the page that begins with this header, by its first column."""
    table = PAGE.read_text(encoding="utf-8").partition(header)[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return {row[0]: row[1:] for row in cells}


@pytest.fixture(scope="module")
def native(unpacked: Path) -> Path:
    (path,) = (unpacked / "spdl" / "io").glob("_native.*.so")
    return path


@pytest.fixture(scope="module")
def libraries(unpacked: Path) -> list[Path]:
    return sorted((unpacked / "spdl_turbo.libs").iterdir())


@pytest.fixture(scope="module")
def ffmpeg(libraries: list[Path]) -> list[Path]:
    return [path for path in libraries if not path.name.startswith("libdav1d")]


@pytest.fixture(scope="module")
def licenses(unpacked: Path) -> Path:
    (path,) = unpacked.glob("spdl_turbo-*.dist-info/licenses")
    return path


@pytest.fixture(scope="module")
def inside(licenses: Path) -> dict[str, Any]:
    """Return the list of what is inside (SBOM)."""
    (path,) = (licenses.parent / "sboms").iterdir()
    assert path.name == "spdl_turbo.cdx.json"
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


@pytest.fixture(scope="module")
def metadata(licenses: Path) -> PackageMetadata:
    return PathDistribution(licenses.parent).metadata


def test_it_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < 12_000_000


def test_the_page_about_installing_gives_its_size(wheel: Path, libraries: list[Path]) -> None:
    column = 1 if wheel.stem.endswith("_aarch64") else 0
    said = re.search(r"Each wheel has ([\d.]+) MB, and ([\d.]+) MB if it is for ARM", PAGE.read_text(encoding="utf-8"))
    assert said is not None
    assert float(said.groups()[column]) == pytest.approx(wheel.stat().st_size / 1e6, rel=0.05)
    names = {path.name for path in libraries}
    with zipfile.ZipFile(wheel) as archive:
        packed = sum(entry.compress_size for entry in archive.infolist() if Path(entry.filename).name in names)
    how = rows("| library | version | licence | how | used for |")["ffmpeg"][2]
    assert float(re.findall(r"([\d.]+) MB", how)[column]) == pytest.approx(packed / 1e6, rel=0.05)


def test_the_page_about_installing_gives_the_versions_of_all_that_is_inside(licenses: Path) -> None:
    table = rows("| library | version | licence | how | used for |")
    versions = {name: row[0] for name, row in table.items()}
    versions["zig"] = versions.pop("zig's runtime, libc++")
    assert set(versions) == {name.partition("/")[0] for name in NOTICES}
    scripts = licenses / "third_party" / "ffmpeg" / "scripts"
    sources = dict(
        re.findall(r"^([\w-]+) ([\d.]+) ", (scripts / "sources.txt").read_text(encoding="utf-8"), re.MULTILINE)
    )
    for file, pattern in (("build.txt", r"^(nanobind)==(\S+)"), ("tools.txt", r"^(zig)lang==(\S+)")):
        sources |= dict(re.findall(pattern, (scripts / file).read_text(encoding="utf-8"), re.MULTILINE))
    assert versions == {name: sources[name] for name in versions}


def test_the_metadata_and_the_page_about_installing_give_the_licences_of_all_that_is_inside(
    metadata: PackageMetadata,
) -> None:
    expression = metadata["License-Expression"]
    assert expression == canonicalize_license_expression(expression)
    table = rows("| library | version | licence | how | used for |")
    inside = " AND ".join(["BSD-3-Clause", *(row[1] for row in table.values())])
    assert canonicalize_license_expression(inside) == inside
    assert sorted(expression.split(" AND ")) == sorted(set(inside.split(" AND ")))


def test_the_metadata_name_each_notice(metadata: PackageMetadata, licenses: Path) -> None:
    named = metadata.get_all("License-File")
    assert named is not None
    assert len(named) == len(set(named))
    texts = {str(path.relative_to(licenses)) for path in licenses.rglob("*") if path.is_file()}
    assert set(named) == {name for name in texts if not name.startswith("third_party/ffmpeg/scripts/")}
    assert set(named) > {f"third_party/{name}" for name in NOTICES}


def test_the_list_of_what_is_inside_has_all_that_there_are_notices_of(inside: dict[str, Any], licenses: Path) -> None:
    components = {each["name"]: each for each in inside["components"]}
    assert len(components) == len(inside["components"])
    # What the wheel needs, and has not inside, has no version.
    assert {name for name, each in components.items() if "version" not in each} == {"numpy"}
    del components["numpy"]
    components["zig"] = components.pop("ziglang")
    assert set(components) == {path.name for path in (licenses / "third_party").iterdir()}
    table = rows("| library | version | licence | how | used for |")
    table["zig"] = table.pop("zig's runtime, libc++")
    for name, each in components.items():
        assert [each["version"], each["licenses"][0]["expression"]] == table[name][:2]


def test_the_list_of_what_is_inside_names_the_sources_that_it_was_built_from(
    inside: dict[str, Any], licenses: Path
) -> None:
    text = (licenses / "third_party" / "ffmpeg" / "scripts" / "sources.txt").read_text(encoding="utf-8")
    pinned = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line and not line.startswith("#")}
    sources = {each["name"]: each for each in inside["components"] if "externalReferences" in each}
    assert set(sources) == set(pinned) - {"python"}
    for name, each in sources.items():
        version, sha256, _, url = pinned[name]
        (reference,) = each["externalReferences"]
        assert (each["version"], reference["url"]) == (version, url)
        assert reference["hashes"] == [{"alg": "SHA-256", "content": sha256}]
        # A purl (https://github.com/package-url/purl-spec) says the same.
        purl = urlsplit(each["purl"])
        assert (purl.scheme, purl.path) == ("pkg", f"generic/{name}@{version}")
        assert parse_qs(purl.query) == {"checksum": [f"sha256:{sha256}"], "download_url": [url]}


def test_the_list_of_what_is_inside_is_a_document_of_cyclonedx(
    inside: dict[str, Any], metadata: PackageMetadata
) -> None:
    assert (inside["bomFormat"], inside["specVersion"], inside["version"]) == ("CycloneDX", "1.6", 1)
    whole = inside["metadata"]["component"]
    assert (whole["name"], whole["version"]) == (metadata["Name"], metadata["Version"])
    references = [each["bom-ref"] for each in inside["components"]]
    assert len(set(references)) == len(references)
    assert inside["dependencies"] == [{"ref": whole["bom-ref"], "dependsOn": references}]
    for each in inside["components"]:
        assert each["type"] == "library"
        for chosen in each.get("licenses", []):
            assert chosen["expression"] == canonicalize_license_expression(chosen["expression"])


def test_pip_need_not_compile_numpy(wheel: Path, metadata: PackageMetadata) -> None:
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    # Newer versions have no wheels for the free-threaded 3.13, and pip would rather compile them than take older ones.
    assert needed == ["numpy>=1.26,<2.5" if "-cp313t-" in wheel.name else "numpy>=1.26"]


def test_the_tag_is_that_of_old_clusters_and_of_the_right_interpreters(wheel: Path, unpacked: Path) -> None:
    _, _, python, abi, platform = wheel.stem.split("-")
    assert (python, abi) in {("cp311", "cp311"), ("cp312", "abi3"), ("cp313", "cp313t")}
    glibc = [tuple(map(int, found)) for found in re.findall(r"manylinux_(\d+)_(\d+)_(?:x86_64|aarch64)", platform)]
    assert max(glibc) <= (2, 28)
    objects = list(unpacked.rglob("*.so*"))
    assert max(elf.newest_glibc(path) for path in objects) <= max(glibc)


def test_our_own_object_exports_nothing_but_its_init_function(native: Path) -> None:
    assert elf.exported(native) == {"PyInit__native"}


def test_ffmpeg_is_there_as_shared_libraries_that_can_be_replaced(native: Path, libraries: list[Path]) -> None:
    assert {path.name.partition("-")[0] for path in libraries} == BUNDLED
    names = {path.name for path in libraries}
    # The name differs from that of any other FFmpeg in the process.
    assert all(re.fullmatch(r"lib\w+-[0-9a-f]{8}\.so\.[\d.]+", name) for name in names)
    assert elf.needed(native) <= names | SYSTEM
    assert {name.partition("-")[0] for name in elf.needed(native) & names} >= BUNDLED
    for library in libraries:
        assert elf.needed(library) <= names | SYSTEM
        assert elf.run_path(library) in ([], ["$ORIGIN"])
    assert elf.run_path(native) == ["$ORIGIN/../../spdl_turbo.libs"]


def test_symbols_bear_versions_that_no_other_library_has(libraries: list[Path]) -> None:
    for library in libraries:
        command = ["readelf", "--version-info", "--wide", str(library)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        versions = set(re.findall(r"Name: (\w*(?:LIBAV|LIBSW|DAV1D)\w*)", text))
        assert versions
        assert all(version.startswith("SPDL_") for version in versions)


def test_static_libraries_show_no_symbols(libraries: list[Path], ffmpeg: list[Path]) -> None:
    (dav1d,) = set(libraries) - set(ffmpeg)
    assert all(re.match(r"dav1d_|SPDL_DAV1D", name) for name in elf.exported(dav1d))
    for library in ffmpeg:
        assert not {name for name in elf.exported(library) if not re.match(r"_?(av|sw|postproc|ff_)|SPDL_LIB", name)}


def test_ffmpeg_is_configured_without_the_gpl(ffmpeg: list[Path], licenses: Path) -> None:
    configuration = (licenses / "third_party" / "ffmpeg" / "configuration.txt").read_text(encoding="utf-8")
    assert "--enable-shared" in configuration
    for word in ("--enable-gpl", "--enable-nonfree", "--enable-version3", "x264", "x265", "openh264"):
        assert word not in configuration
    for library in ffmpeg:
        content = library.read_bytes()
        assert b"LGPL version 2.1 or later" in content
        assert b"GPL version 2 or later" not in content.replace(b"LGPL version 2.1 or later", b"")
        assert b"--enable-gpl" not in content
        # The library contains the words of the notice.
        assert configuration.strip().removeprefix("configure ").encode() in content


def test_notices_of_all_that_is_inside_are_there(licenses: Path) -> None:
    assert "Redistribution and use in source and binary forms" in (licenses / "LICENSE").read_text(encoding="utf-8")
    for name, sentence in NOTICES.items():
        assert sentence in (licenses / "third_party" / name).read_text(encoding="utf-8"), name
    folders = {path.name for path in (licenses / "third_party").iterdir()}
    assert folders == {name.partition("/")[0] for name in NOTICES}


def test_what_the_lgpl_asks_for_is_there(wheel: Path, licenses: Path) -> None:
    folder = licenses / "third_party" / "ffmpeg"
    source = next(
        line.split()
        for line in (folder / "scripts" / "sources.txt").read_text(encoding="utf-8").splitlines()
        if line[:7] == "ffmpeg "
    )
    assert re.fullmatch(r"7\.1\.\d+", source[1])
    assert re.fullmatch(r"[0-9a-f]{64}", source[2])
    assert source[4].endswith(f"ffmpeg_{source[1]}.orig.tar.xz")
    assert re.fullmatch(r"configure --prefix=.*\n", (folder / "configuration.txt").read_text(encoding="utf-8"))
    replacing = (folder / "REPLACING.md").read_text(encoding="utf-8")
    for script in (
        "ffmpeg.sh",
        "library.sh",
        "libraries.sh",
        "fetch.sh",
        "tools.sh",
        "tools.txt",
        "places.sh",
        "replace.sh",
    ):
        assert (folder / "scripts" / script).stat().st_size > 0
    with zipfile.ZipFile(wheel) as archive:
        modes = {it.filename: it.external_attr >> 16 for it in archive.infolist() if "/ffmpeg/scripts/" in it.filename}
    executable = {name for name, mode in modes.items() if mode & 0o100 and not name.endswith("/")}
    assert executable == {name for name in modes if name.endswith(".sh")}
    assert "scripts/replace.sh" in replacing
    assert "reverse engineer spdl-turbo to debug" in " ".join(replacing.split())
