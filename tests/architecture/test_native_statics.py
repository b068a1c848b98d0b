"""What lasts as long as the process is guarded in the native part: without a GIL, several threads run it at once."""

import re
from pathlib import Path

import pytest
from tests.architecture.test_native_includes import NATIVE, sources

GUARDED = {
    "constexpr": "nobody changes it",
    "const": "nobody changes it once it is made, which C++ leaves to one thread",
    "thread_local": "each thread has its own",
    "std::atomic": "its operations are atomic",
    "std::mutex": "it is a lock",
    "nb::ft_mutex": "it is a lock",
    "PyType_Slot": "only the import uses it, which is one thread",
    "ColorWriter": "it is a function",
    "PixelWriter": "it is a function",
    "PackSwsWeights": "it is a function",
    "ScaleSwsRows": "it is a function",
}
"""Words of a declaration, and why several threads may use what is declared by it."""

BY_NAME = {
    "bindings/python_bytes.cpp: nothing": "it has an address, and is never read or written",
    "core/trace.cpp: records": "whoever uses it holds the lock beside it",
    "core/trace.cpp: last_number": "the same",
    "cuda/kernels.cpp: loaded": "whoever uses it holds the lock beside it",
    "cuda/driver.cpp: instance": "it has a lock of its own, which whoever uses it holds",
    "cuda/device.cpp: devices": "whoever uses it holds the lock beside it",
    "cuda/device.cpp: instance": "a Storage has a lock of its own",
    "ffmpeg/frames.cpp: mark": "it has an address, and is never read or written",
    "gpu/nvdec.cpp: instance": "it has a lock of its own, which whoever uses it holds",
    "gpu/image_batch.cpp: instance": "it has a lock of its own, which whoever uses it holds",
    "ffmpeg/ffmpeg_log.cpp: waiting": "it has a lock of its own, which whoever uses it holds",
}
"""The others, and why."""

NO_TYPE = (
    r"(?:return|using|namespace|class|struct|enum|union|typedef|template|extern|public|private|friend|case|default)\b"
)
# A type, a name, and what begins the first value or ends the declaration; a function has a parenthesis there.
VARIABLE = re.compile(
    r"(?P<within>\s*)(?P<type>(?:[\w:]+(?:<[^;=]*>)?[\s*&]+)+)(?P<name>\w+)\s*(?:\[\w*\]\s*)*(?:=(?!=)|;|\{)"
)

pytestmark = pytest.mark.skipif(not NATIVE.exists(), reason="needs the sources")


def lasting(text: str) -> list[tuple[str, str]]:
    """Return type and name of each variable that lasts as long as the process or a thread.

    Those are static, or begin a line: outside of functions and classes, as clang-format indents.
    """
    found = []
    for line in text.splitlines():
        match = VARIABLE.match(line)
        if match is None or re.match(NO_TYPE, line.strip()):
            continue
        if not match["within"] or re.search(r"\b(static|thread_local)\b", match["type"]):
            found.append((match["type"].strip(), match["name"]))
    return found


def is_guarded(kind: str) -> bool:
    """Return whether the type says that several threads may use it: for a pointer, not what it points to."""
    outer = re.sub(r"<.*>", "", kind)
    own = outer if re.search(r"\b(constexpr|thread_local)\b", outer) else outer.rsplit("*", 1)[-1]
    return any(re.search(rf"(?<![\w:]){word}(?![\w:])", own) for word in GUARDED)


def unguarded(native: Path) -> set[str]:
    return {
        f"{path.relative_to(native).as_posix()}: {name}"
        for path in sources(native)
        for kind, name in lasting(path.read_text())
        if not is_guarded(kind)
    }


def test_each_static_is_guarded() -> None:
    assert unguarded(NATIVE) == set(BY_NAME)


@pytest.mark.parametrize(
    "line",
    [
        "static int count = 0;",
        "    static std::vector<int> all;",
        "std::map<int, int> known;",
        "const char* last = nullptr;",
        "inline bool ready{false};",
        "    static const Kernels* chosen = nullptr;",
    ],
)
def test_what_anybody_may_change_is_found(line: str, tmp_path: Path) -> None:
    (tmp_path / "part.cpp").write_text(f"namespace spdl {{\n{line}\n}}\n")
    assert len(unguarded(tmp_path)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "static int twice(int value) {",
        "    static Known* const instance = new Known;",
        "    static std::atomic<const Kernels*> chosen = nullptr;",
        "constexpr const char* kNames[] = {",
        "thread_local const std::atomic<bool>* end = nullptr;",
        "    int count = 0;",
        "using Bytes = std::span<int>;",
    ],
)
def test_other_lines_are_not(line: str, tmp_path: Path) -> None:
    (tmp_path / "part.cpp").write_text(f"namespace spdl {{\n{line}\n}}\n")
    assert unguarded(tmp_path) == set()
