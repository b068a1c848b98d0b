"""Configurations are values: checked when made, compared by content."""

import dataclasses

import pytest

from spdl.io import DecodeConfig, DemuxConfig, decode_config, demux_config


def test_the_functions_make_the_classes() -> None:
    assert demux_config() == DemuxConfig(format=None, format_options=None, buffer_size=8096)
    assert demux_config("png_pipe", {"a": "b"}, 64) == DemuxConfig("png_pipe", {"a": "b"}, 64)
    assert decode_config("png", {"a": "b"}) == DecodeConfig(decoder="png", decoder_options={"a": "b"})


def test_a_buffer_needs_room() -> None:
    with pytest.raises(ValueError, match="`buffer_size` must be at least 1 byte, got 0"):
        demux_config(buffer_size=0)


def test_they_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        demux_config().buffer_size = 1  # type: ignore[misc]
