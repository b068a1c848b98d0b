"""Configurations are values: checked when made, compared by content."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image
from tests.io.images import encode, make_image, make_jpeg

from spdl.io import (
    DecodeConfig,
    DemuxConfig,
    decode_config,
    demux_config,
    demux_image,
    encode_config,
    load_image,
    load_image_batch,
    to_numpy,
)


def test_the_functions_make_the_classes() -> None:
    assert demux_config() == DemuxConfig(format=None, format_options=None, buffer_size=8096)
    assert demux_config("png_pipe", {"a": "b"}, 64) == DemuxConfig("png_pipe", {"a": "b"}, 64)
    assert decode_config("png", {"a": "b"}) == DecodeConfig(decoder="png", decoder_options={"a": "b"})


def test_a_buffer_needs_room() -> None:
    for size in (0, -1, 2**30 + 1, 2**40, 2**70):
        with pytest.raises(ValueError, match=f"^`buffer_size` must be an int from 1 to 1073741824, got {size} "):
            demux_config(buffer_size=size)
    with pytest.raises(TypeError, match=r"^`buffer_size` must be an int .*, got 2\.5 \(.*test_config.py:\d+\)\.$"):
        demux_config(buffer_size=2.5)  # type: ignore[arg-type]


def test_the_largest_buffer_can_be_had() -> None:
    data = encode(make_image(20, 10), "PNG")
    assert load_image(data, demux_config=demux_config(buffer_size=2**30)).shape == (10, 20, 3)


@pytest.mark.parametrize(("make", "name"), [(demux_config, "format_options"), (decode_config, "decoder_options")])
def test_options_are_text(make: Callable[..., object], name: str) -> None:
    with pytest.raises(TypeError, match=rf"^`{name}\['a'\]` must be a str, got 1 "):
        make(**{name: {"a": 1}})
    with pytest.raises(TypeError, match=rf"^`{name}.keys\(\)` must be a str, got 1 "):
        make(**{name: {1: "a"}})
    with pytest.raises(TypeError, match=rf"^`{name}` must be a mapping of options' names to .*, or None, got \['a'\] "):
        make(**{name: ["a"]})
    with pytest.raises(ValueError, match=rf"^`{name}\['a'\]` must be a str without null characters, got '1\\x00' "):
        make(**{name: {"a": "1\0"}})


@pytest.mark.parametrize(
    ("make", "name"),
    [(demux_config, "format_options"), (decode_config, "decoder_options"), (encode_config, "encoder_options")],
)
def test_options_are_copied(make: Callable[..., object], name: str) -> None:
    options = {"a": "b"}
    config = make(**{name: options})
    options["a"] = "unchecked\0"
    assert getattr(config, name) == {"a": "b"}


def test_names_are_text_without_null_characters() -> None:
    with pytest.raises(TypeError, match=r"^`format` must be a str, got 3 "):
        demux_config(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^`decoder` must be a str without null characters"):
        decode_config("png\0")
    with pytest.raises(ValueError, match=r"^`bsf` must be a str without null characters"):
        demux_image(make_jpeg(), bsf="null\0")


def test_too_many_pixels_are_refused_before_they_are_decoded() -> None:
    jpeg, png = make_jpeg(40, 30), encode(make_image(40, 30), "PNG")
    just = decode_config(max_pixels=1200)
    below = decode_config(max_pixels=1199)
    for data in (jpeg, png):
        assert load_image(data, decode_config=just).shape == (30, 40, 3)
        assert load_image_batch([data], width=8, height=8, decode_config=just).shape == (1, 8, 8, 3)
        message = r"its size of 40x30 is outside what is accepted.*at most 1199 pixels"
        with pytest.raises(RuntimeError, match=message):
            load_image(data, decode_config=below)
        with pytest.raises(RuntimeError, match=message):
            load_image_batch([data], width=8, height=8, decode_config=below)


def test_the_limit_can_be_raised() -> None:
    # A black picture of 400 megapixels, in 2.5 megabytes; only its first rows are decoded.
    data = encode(Image.new("L", (20_000, 20_000)), "JPEG")
    keywords: dict[str, Any] = {"width": 8, "height": 8, "crop": [(0, 0, 64, 64)]}
    with pytest.raises(RuntimeError, match=r"its size of 20000x20000 is outside what is accepted.*178000000 pixels"):
        load_image_batch([data], **keywords)
    config = decode_config(max_pixels=400_000_000)
    assert not to_numpy(load_image_batch([data], decode_config=config, **keywords)).any()


@pytest.mark.parametrize("pixels", [0, -1, 2**40])
def test_the_most_pixels_are_a_number_of_them(pixels: int) -> None:
    with pytest.raises(ValueError, match=f"^`max_pixels` must be an int from 1 to 4294836225, got {pixels} "):
        decode_config(max_pixels=pixels)
    with pytest.raises(TypeError, match=r"^`max_pixels` must be an int from 1 to 4294836225, got 1000000.0 "):
        decode_config(max_pixels=1e6)  # type: ignore[arg-type]


def test_only_configurations_are_configurations() -> None:
    with pytest.raises(
        TypeError, match=r"^`demux_config` must be a DemuxConfig, as `demux_config` returns, or None, got"
    ):
        demux_image(make_jpeg(), demux_config="png_pipe")  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match=r"^`decode_config` must be a DecodeConfig, as `decode_config` returns, or None,"
    ):
        load_image(make_jpeg(), decode_config="png")  # type: ignore[call-overload]


def test_they_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        demux_config().buffer_size = 1  # type: ignore[misc]
