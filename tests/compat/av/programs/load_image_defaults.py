"""Single images, with the default filter and without any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from showing import attempt, digest, form, show

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


def main(clips: Path, made: Path) -> None:
    for name in ("rgb.png", "gray.png", "rgba.png"):
        show(name, form(spdl.io.load_image(str(clips / name))))
        show(f"{name} without filter", digest(spdl.io.load_image(clips / name, filter_desc=None)))
    show("exact", digest(spdl.io.load_image(clips / "rgb.png")))
    show("from bytes", digest(spdl.io.load_image((clips / "rgb.png").read_bytes())))
    show(
        "resized",
        form(spdl.io.load_image(clips / "rgb.png", filter_desc=spdl.io.get_video_filter_desc(scale_width=32))),
    )
    packets = spdl.io.demux_image(clips / "rgb.png")
    show("packets", f"{packets.width} {packets.height} {packets.pix_fmt} {packets.codec.name}")
    frames = spdl.io.decode_packets(packets.clone())
    show("frames", f"{frames.width} {frames.height} {frames.pix_fmt} {frames.num_planes}")
    batch = spdl.io.load_image_batch([clips / "rgb.png"] * 3, width=20, height=10)
    show("batch", form(batch))
    attempt("of a missing file", lambda: spdl.io.load_image(clips / "missing.png"))
