"""The flows of the pages that are lists: good pipelines, what to do about a fault, what an installation consists of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flow_steps import command, data, gpu, inside, loop, outside, thread, told, yours

if TYPE_CHECKING:
    from flow_diagrams import Flow

__all__ = ["FLOWS"]

FLOWS: dict[str, tuple[Flow, ...]] = {
    "best_practices": (
        (
            "A pipeline that keeps the rules: each stage has the threads that its work wants",
            (
                data("source", "names only: one thread at a time pulls it"),
                thread("read", "many threads: they wait for answers"),
                thread("decode a batch", "one native call; as many threads as cores"),
                gpu("copy", "one thread"),
                loop("loop", "in a with block, with a deadline"),
            ),
        ),
        (
            "One that breaks them: a stage for everything, an image at a time",
            (
                data("source", "opens and reads each file: serial"),
                thread("read, decode", "a call for each image: too many threads, or too few"),
                thread("collate", "a copy of each image"),
                loop("loop", "waits"),
            ),
        ),
    ),
    "troubleshooting": (
        (
            "It raises or warns",
            (
                told("message", "what it got, what it takes, what to do"),
                told("headings below", "some of its words, and more to do"),
                yours("your program", "mended there"),
            ),
        ),
        (
            "It hangs",
            (
                command("spdl why PID", "the stage that the others wait for"),
                command("spdl stack PID", "the line where its thread is"),
                yours("your program", "a deadline there: timeout="),
            ),
        ),
        (
            "It is slow",
            (
                command("spdl top PID", "does the loop wait, and for which stage?"),
                command("spdl profile", "each stage alone, with one thread and more"),
                yours("your program", "that stage changed, and measured again"),
            ),
        ),
        (
            "Items are missing",
            (
                told("failures()", "the items, each with its error"),
                yours("the op alone", "with one of these items, in a debugger"),
                yours("your program", "max_failures= for the next time"),
            ),
        ),
    ),
    "install": (
        (
            "The wheel: its libraries are inside, and it needs only numpy",
            (
                command("make wheel", "once; compiles all libraries"),
                inside("spdl.io", "with libjpeg-turbo, libdeflate, libzstd"),
                inside("FFmpeg", "shared, LGPL; with dav1d, libvpx, opus, zlib"),
                outside("numpy", "from pip"),
            ),
        ),
        (
            "Built from source: on the FFmpeg that the system has",
            (
                command("pip install .", "needs compilers and headers"),
                inside("spdl.io", "with libjpeg-turbo, libdeflate, libzstd"),
                outside("FFmpeg 5.1 to 8", "with all that it was built with, such as x264"),
                outside("numpy", "from pip"),
            ),
        ),
    ),
}
