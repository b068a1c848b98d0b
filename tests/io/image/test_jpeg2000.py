"""JPEG 2000, against Pillow, whose library is the same, and against the planes that were encoded."""

import base64
import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms
from tests.io.image.mutated_files import assert_cuts_are_refused, compare_with_pillow, open_with_ours, open_with_pillow
from tests.io.image.parts import ENDS, Ends, assert_part
from tests.io.image.test_formats import smooth
from tests.io.images import Array, decode_with_pillow, encode, make_image
from tests.io.jpeg2000_files import box, code_of, coded_planes, colours, jp2, palette

from spdl.io import decode_config, demux_image, load_image, load_image_batch, to_numpy

IMAGE = make_image(61, 43)
ALPHA = Image.merge("RGBA", (*IMAGE.split(), make_image(61, 43, 1).getchannel(0)))

# 16x12 pixels, written by OpenJPH 0.26 without loss: the code of blocks that Part 15 of the standard defines (HTJ2K).
HIGH_THROUGHPUT = base64.b64decode(
    "/0//UQAvQAAAAAAQAAAADAAAAAAAAAAAAAAAEAAAAAwAAAAAAAAAAAADBwEBBwEBBwEB/1AACAACAAAAA/9SAAwAAgABAQUEBEAB/1wAEyBQWFhY"
    "WFhYWFhYWFhYUFBQ/2QAFwABT3BlbkpQSCBWZXIgMC4yNi4zLv+QAAoAAAAAAXQAAf+TwBKA/QCHdADAEoD7AId0AMASgPkAx3QAAAAAwAlgBLAC"
    "UNQAh3QAvAEHdADiAAd0AMAJYASwAlDIAId0AAcBh3QAmgEHdADACWAEoBABh3QAVQGHdADACaAEkAJAwZMAAFQA6wozAP4A4wDACeAEsAIwAMD5"
    "ACCUAPIAQXQAACMAwAmgBIAIxAECdACqEjMAwAqoAVMAJQAABOgBz9i1tgAsTOvAAAG+tgD7wb9UAMAKiAFVACcgAPmgR/JVANfi/P3AAIG+tgAA"
    "+oBNa+UAwAqYAVSCIPygIjCCdgDZbDb7wBCBvrYAwBaEAW1AFaCq/OkH0ET7zZKqveDoo+sAAAABAIigQGJggoCgeQEHkBF2E5LuD+/ofgCAgIAE"
    "GHXkMOvJjOoAwBUQBWwBKCyX59HSP9YA5/i9+f77J79wQey4AP79AEQAwBVQBaDMzMzngKenwncA5znnnHP++gAAe/YAAey6AP/Z"
)

FILES = {
    "RGB": encode(IMAGE, "JPEG2000"),
    "gray": encode(IMAGE.convert("L"), "JPEG2000"),
    "code alone": encode(IMAGE, "JPEG2000", no_jp2=True),
    "RGBA": encode(ALPHA, "JPEG2000"),
    "gray and alpha": encode(ALPHA.convert("LA"), "JPEG2000"),
    "YCbCr": encode(IMAGE.convert("YCbCr"), "JPEG2000"),
    "tiles": encode(smooth(), "JPEG2000", tile_size=(64, 64)),
    "tiles alone": encode(smooth(), "JPEG2000", tile_size=(64, 64), no_jp2=True),
    "lossy": encode(smooth(), "JPEG2000", irreversible=True, quality_layers=[20]),
}


def load(data: bytes, **keywords: Any) -> npt.NDArray[Any]:
    buffer = load_image(data, **keywords)
    assert buffer.backends == ("openjpeg",)
    return to_numpy(buffer)


def pillows(data: bytes) -> Array:
    """Return Pillow's pixels in the file's own mode."""
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image)


def gray_code(samples: npt.NDArray[np.integer[Any]], bits: int, *, signed: bool = False) -> bytes:
    """Encode gray samples of so many bits, which Pillow cannot: its header is changed to theirs."""
    stored = 8 if bits <= 8 else 16
    lowest = 0 if signed else 1 << (bits - 1)
    levels = (samples - lowest + (1 << (stored - 1))).astype(np.uint8 if stored == 8 else np.uint16)
    code = bytearray(encode(Image.fromarray(levels), "JPEG2000", no_jp2=True))
    code[42] = (bits - 1) | (0x80 if signed else 0)
    return bytes(code)


@settings(deadline=None, max_examples=60)
@given(
    mode=st.sampled_from(["L", "LA", "RGB", "RGBA", "YCbCr", "I;16"]),
    size=st.tuples(st.integers(33, 130), st.integers(33, 130)),
    irreversible=st.booleans(),
    no_jp2=st.booleans(),
    num_resolutions=st.integers(1, 5),
    progression=st.sampled_from(["LRCP", "RLCP", "RPCL", "PCRL", "CPRL"]),
    more=st.fixed_dictionaries(
        {},
        optional={
            "tile_size": st.sampled_from([(32, 32), (64, 48)]),
            "codeblock_size": st.sampled_from([(4, 4), (16, 64), (8, 32)]),
            "quality_layers": st.sampled_from([[10], [60, 20]]),
        },
    ),
)
def test_every_kind_has_pillows_pixels(mode: str, size: tuple[int, int], more: dict[str, Any], **options: Any) -> None:
    image = make_image(*size)
    if mode == "I;16":
        image = Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 201)
    elif mode.endswith("A"):
        image.putalpha(make_image(*size, 1).getchannel(0))
        image = image.convert(mode)
    else:
        image = image.convert(mode)
    data = encode(image, "JPEG2000", **options, **more)
    np.testing.assert_array_equal(load(data), open_with_pillow(data))
    if mode != "YCbCr":
        expected = pillows(data)
        np.testing.assert_array_equal(load(data, filter_desc=None), expected.reshape(*expected.shape[:2], -1))


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("bits", range(1, 17))
def test_white_is_white_with_any_number_of_bits(bits: int, *, signed: bool) -> None:
    most = (1 << bits) - 1
    levels = np.arange(64 * 48).reshape(48, 64) * most // (64 * 48 - 1)
    data = gray_code(levels - ((1 << (bits - 1)) if signed else 0), bits, signed=signed)
    upper = levels >> (bits - 8) if bits >= 8 else (levels * 255 + most // 2) // most
    for file in (data, jp2(data, "gray")):
        np.testing.assert_array_equal(load(file)[..., 0], upper)
        stored = load(file, filter_desc=None)[..., 0]
        assert stored.dtype == (np.uint8 if bits <= 8 else np.uint16)
        np.testing.assert_array_equal(stored, upper if bits <= 8 else (levels * 65535 + most // 2) // most)
    assert load(data).max() == 255


def deep_code(planes: npt.NDArray[np.int64], bits: int, folder: Path) -> bytes:
    """Encode 30x20 pixels of three samples of so many bits: as 16, but the header says how many they are."""
    stored = (planes - (1 << (bits - 1)) + (1 << 15)).astype("<u2")
    code = bytearray(coded_planes(stored.tobytes(), (30, 20), "rgb48le", folder))
    code[42:51:3] = bytes([bits - 1]) * 3
    return bytes(code)


@pytest.mark.parametrize("bits", [10, 12, 16])
def test_deep_colours_keep_their_upper_bits(bits: int, tmp_path: Path) -> None:
    planes = np.random.default_rng(0).integers(0, 1 << bits, (20, 30, 3))
    planes[0, 0] = (1 << bits) - 1
    code = deep_code(planes, bits, tmp_path)
    for file in (code, jp2(code, "sRGB")):
        np.testing.assert_array_equal(load(file), planes >> (bits - 8))
        expected = (planes * 65535 + (1 << bits) // 2 - 1) // ((1 << bits) - 1)
        np.testing.assert_array_equal(load(file, filter_desc=None), expected)


def test_high_throughput() -> None:
    y, x = np.mgrid[0:12, 0:16]
    np.testing.assert_array_equal(load(HIGH_THROUGHPUT), np.stack([x * 15, y * 20, x * y % 256], -1))
    np.testing.assert_array_equal(load(HIGH_THROUGHPUT), np.asarray(decode_with_pillow(HIGH_THROUGHPUT)))


# ---- colours ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", ["sYCC", "e-sYCC", None])
@pytest.mark.parametrize(("pix_fmt", "grid"), [("yuv444p", (1, 1)), ("yuv422p", (2, 1)), ("yuv420p", (2, 2))])
def test_chroma_is_converted_as_pillow_converts_it(
    space: str | None, pix_fmt: str, grid: tuple[int, int], tmp_path: Path
) -> None:
    width, height = 37, 23
    rng = np.random.default_rng(1)
    across, down = grid
    sizes = [(height, width), *[(-(-height // down), -(-width // across))] * 2]
    planes = [rng.integers(0, 256, size, dtype=np.uint8) for size in sizes]
    code = coded_planes(b"".join(plane.tobytes() for plane in planes), (width, height), pix_fmt, tmp_path)
    repeated = [np.kron(plane, np.ones((down, across), np.uint8))[:height, :width] for plane in planes[1:]]
    packed = np.stack([planes[0], *repeated], -1)
    converted = np.asarray(Image.frombytes("YCbCr", (width, height), packed.tobytes()).convert("RGB"))
    # A code alone does not name its colours, but RGB has no reason to have fewer samples for some of them.
    expected = packed if space is None and grid == (1, 1) else converted
    data = code if space is None else jp2(code, space)
    np.testing.assert_array_equal(load(data), expected)
    part = to_numpy(load_image_batch([data], width=None, height=None, crop=[(5, 3, 20, 14)]))[0]
    np.testing.assert_array_equal(part, expected[3:14, 5:20])


def cmyk_profile() -> bytes:
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    profile[16:20] = b"CMYK"
    return bytes(profile)


@pytest.mark.parametrize("bits", [3, 6, 7, 9, 10, 12, 16])
def test_chroma_of_any_number_of_bits_is_converted_before_they_are_cut(bits: int, tmp_path: Path) -> None:
    most, middle = (1 << bits) - 1, 1 << (bits - 1)
    planes = np.random.default_rng(0).integers(0, most + 1, (20, 30, 3))
    planes[0, :2] = [[most, middle, middle], [0, middle, middle]]  # White and black.
    data = jp2(deep_code(planes, bits, tmp_path), "sYCC")
    luma, blue, red = (planes - [0, middle, middle]).transpose(2, 0, 1)
    rgb = np.stack([luma + 1.402 * red, luma - 0.344136 * blue - 0.714136 * red, luma + 1.772 * blue], -1)
    converted = np.floor(rgb + 0.5).clip(0, most).astype(int)
    expected = converted >> (bits - 8) if bits >= 8 else (converted * 255 + most // 2) // most
    np.testing.assert_array_equal(load(data), expected)
    stretched = (converted * 65535 + most // 2) // most
    np.testing.assert_array_equal(load(data, filter_desc=None), expected if bits <= 8 else stretched)
    assert load(data)[0, :2].tolist() == [[255] * 3, [0] * 3]
    # Pillow, too, stays near to it, except where white becomes black.
    near = np.abs(np.asarray(decode_with_pillow(data)).astype(int) - expected)[expected.max(-1) < 250]
    assert bits < 8 or near.max() <= 3


def sparse(code: bytes, channels: int, grid: tuple[int, int], missing: tuple[int, int]) -> bytes:
    """Give all channels a sample for so many pixels; some are missing in the last row and column of these."""
    across, down = grid
    data = bytearray(code)
    width, height = struct.unpack_from(">2I", data, 8)
    tile = struct.unpack_from(">2I", data, 24)
    struct.pack_into(">2I", data, 8, width * across - missing[0], height * down - missing[1])
    struct.pack_into(">2I", data, 24, tile[0] * across, tile[1] * down)
    for channel in range(channels):
        data[43 + 3 * channel : 45 + 3 * channel] = bytes(grid)
    return bytes(data)


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
@pytest.mark.parametrize("grid", [(2, 2), (2, 1), (1, 2), (4, 3)])
@pytest.mark.parametrize("missing", [(0, 0), (1, 1)])
def test_all_channels_may_have_fewer_samples(mode: str, grid: tuple[int, int], missing: tuple[int, int]) -> None:
    image = ALPHA.convert(mode)
    missing = (missing[0] if grid[0] > 1 else 0, missing[1] if grid[1] > 1 else 0)
    code = sparse(encode(image, "JPEG2000", no_jp2=True), len(mode), grid, missing)
    samples = np.asarray(image).reshape(43, 61, -1).repeat(grid[1], 0).repeat(grid[0], 1)
    samples = samples[: len(samples) - missing[1], : samples.shape[1] - missing[0]]
    expected = np.repeat(samples[..., :1], 3, -1) if len(mode) < 3 else samples[..., :3]
    for data in (code, jp2(code, "sRGB" if len(mode) > 2 else "gray")):
        np.testing.assert_array_equal(load(data, filter_desc=None), samples)
        np.testing.assert_array_equal(load(data), expected)
        for ends in ((3, 40, 7, 20), (0, 59, 41, 42)):
            assert_part(data, ends, expected)
        if len(mode) > 2 and missing == (0, 0):  # Where samples are missing, Pillow's rows are shifted.
            np.testing.assert_array_equal(np.asarray(decode_with_pillow(data)), expected)
    small: dict[str, Any] = {"width": 15, "height": 10, "mode": "stretch"}
    exact = to_numpy(load_image_batch([code], **small))
    np.testing.assert_array_equal(to_numpy(load_image_batch([code], exact=False, **small)), exact)


@pytest.mark.parametrize("space", ["CMYK", cmyk_profile()], ids=["by number", "by profile"])
def test_cmyk_is_pillows(space: str | bytes) -> None:
    inks = np.random.default_rng(2).integers(0, 256, (30, 40, 4), dtype=np.uint8)
    code = code_of(encode(Image.fromarray(inks, "RGBA"), "JPEG2000"))
    expected = np.asarray(Image.frombytes("CMYK", (40, 30), inks.tobytes()).convert("RGB"))
    np.testing.assert_array_equal(load(jp2(code, space)), expected)
    np.testing.assert_array_equal(load(jp2(code, space), filter_desc=None), expected)


@pytest.mark.parametrize("channels", [3, 4])
def test_palettes(channels: int) -> None:
    rng = np.random.default_rng(3)
    entries = rng.integers(0, 256, (200, channels), dtype=np.uint8)
    indices = rng.integers(0, 200, (30, 40), dtype=np.uint8)
    code = code_of(encode(Image.fromarray(indices), "JPEG2000"))
    data = jp2(code, "sRGB", palette(entries))
    np.testing.assert_array_equal(load(data), entries[indices][..., :3])
    np.testing.assert_array_equal(load(data, filter_desc=None), entries[indices])
    if channels == 3:
        np.testing.assert_array_equal(np.asarray(decode_with_pillow(data)), entries[indices])


@pytest.mark.parametrize("bits", [33, 67, 128])
def test_a_palette_of_more_bits_than_its_samples_have_is_refused(bits: int) -> None:
    indices = np.zeros((30, 40), dtype=np.uint8)
    # OpenJPEG reads four bytes of each entry at most.
    content = struct.pack(">HB", 2, 3) + bytes([bits - 1]) * 3 + bytes(range(24))
    channels = b"".join(struct.pack(">HBB", 0, 1, channel) for channel in range(3))
    code = code_of(encode(Image.fromarray(indices), "JPEG2000"))
    with pytest.raises(RuntimeError, match=f"samples of {bits} bits, and 1 to 32 can be read"):
        load(jp2(code, "sRGB", box(b"pclr", content) + box(b"cmap", channels)))


def test_a_profile_of_colours_does_not_change_them() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    data = jp2(code_of(FILES["RGB"]), profile)
    np.testing.assert_array_equal(load(data), np.asarray(IMAGE))


@pytest.mark.parametrize("size", [1, 19])
def test_a_profile_that_is_none_does_not_change_them(size: int) -> None:
    np.testing.assert_array_equal(load(jp2(code_of(FILES["RGB"]), bytes(size))), np.asarray(IMAGE))


def test_lab_is_refused() -> None:
    with pytest.raises(RuntimeError, match="cannot decode the JPEG 2000: its colours are CIELab"):
        load(jp2(code_of(FILES["RGB"]), "CIELab"))


def test_too_few_channels_for_the_colours() -> None:
    with pytest.raises(RuntimeError, match="it has 1 channels, too few for its colours"):
        load(jp2(code_of(FILES["gray"]), "sYCC"))


# ---- parts and fractions ---------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(kind=st.sampled_from(sorted(FILES)), ends=ENDS)
def test_a_part_is_that_of_the_whole(kind: str, ends: Ends) -> None:
    assert_part(FILES[kind], ends, load(FILES[kind]))


@pytest.mark.parametrize("interpolation", ["area", "bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("options", [{}, {"irreversible": True}, {"tile_size": (128, 128)}], ids=str)
@pytest.mark.parametrize("target", [(80, 60), (50, 41), (20, 15)])
def test_a_fraction_is_close_to_the_exact_picture(
    interpolation: str, options: dict[str, Any], target: tuple[int, int]
) -> None:
    data = encode(smooth(501, 383), "JPEG2000", **options)
    keywords: dict[str, Any] = {"width": target[0], "height": target[1], "interpolation": interpolation}
    for crop in (None, [(101, 50, 451, 351)]):
        exact = to_numpy(load_image_batch([data], crop=crop, mode="stretch", **keywords))[0].astype(float)
        loose = to_numpy(load_image_batch([data], crop=crop, mode="stretch", exact=False, **keywords))[0]
        # 37 dB: the picture is nothing but waves.
        assert np.square(exact - loose).mean() < 255**2 / 10**3.7


def test_a_picture_with_too_few_resolutions_is_decoded_whole() -> None:
    data = encode(smooth(200, 200), "JPEG2000", num_resolutions=2)
    keywords: dict[str, Any] = {"width": 20, "height": 20}
    exact = to_numpy(load_image_batch([data], **keywords))
    np.testing.assert_array_equal(to_numpy(load_image_batch([data], exact=False, **keywords)), exact)


# ---- damage and claims -----------------------------------------------------------------------------------------------


def test_damaged_files_are_what_pillow_makes_of_them() -> None:
    outcomes = compare_with_pillow(FILES, 450)
    assert not outcomes.wrong
    assert len(outcomes.equal) > 120
    assert len(outcomes.both_refuse) > 200
    assert len(outcomes.only_pillow_reads) < 15


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_ends_early_is_an_error(kind: str) -> None:
    assert_cuts_are_refused(FILES[kind], "cannot decode the JPEG 2000: ", first=60, step=197)


def changed(data: bytes, at: int, *values: int) -> bytes:
    """Change fields of the code, of four bytes each."""
    start = data.index(b"\xff\x4f\xff\x51") + at
    return data[:start] + struct.pack(f">{len(values)}I", *values) + data[start + 4 * len(values) :]


def test_what_a_file_claims_is_checked_before_there_is_memory_for_it() -> None:
    alone = FILES["code alone"]
    for data, message in (
        (changed(alone, 8, 60_000, 60_000), "its size of 60000x60000 is outside what is accepted|tiles"),
        (changed(alone, 8, 20_000, 20_000, 0, 0, 100, 100), "it claims 40000 tiles, more than its .* bytes can hold"),
        (changed(alone, 8, 0, 0), "names a picture from"),
        (changed(alone, 24, 0, 0), "its tiles do not cover the picture"),
        (alone[:40] + struct.pack(">H", 16384) + alone[42:], "it has 16384 channels, and 1 to 4 are read"),
        (jp2(changed(alone, 8, 61, 44), "sRGB").replace(b"\0\0\0\x2c\0\0\0\x3d", b"\0\0\0\x2b\0\0\0\x3d", 1),
         "its header is not that of its picture"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=f"cannot decode the (JPEG 2000|image): .*({message})"):
            load(data)


def test_tiny_blocks_are_refused() -> None:
    code = bytearray(changed(FILES["code alone"], 8, 10_000, 10_000, 0, 0, 10_000, 10_000))
    coding = code.index(b"\xff\x52") + 10
    code[coding : coding + 2] = b"\0\0"  # 4x4 samples.
    with pytest.raises(RuntimeError, match=r"divided into .* blocks, which are too many for its 300000000 samples"):
        load(bytes(code))


def test_other_limits_are_the_callers() -> None:
    with pytest.raises(RuntimeError, match=r"its size of 61x43 is outside what is accepted: .* at most 2622 pixels"):
        load(FILES["RGB"], decode_config=decode_config(max_pixels=61 * 43 - 1))


@pytest.mark.parametrize(
    ("kind", "pix_fmt"), [("RGB", "rgb24"), ("gray", "gray"), ("RGBA", "rgba"), ("gray and alpha", "ya8")]
)
def test_packets_know_the_format(kind: str, pix_fmt: str) -> None:
    packets = demux_image(FILES[kind])
    assert (packets.codec.name, packets.width, packets.height, packets.pix_fmt) == ("jpeg2000", 61, 43, pix_fmt)


def test_ffmpeg_reads_it_by_name() -> None:
    picture = to_numpy(load_image(FILES["RGB"], decode_config=decode_config(backend="ffmpeg")))
    np.testing.assert_array_equal(picture, np.asarray(IMAGE))
    for data in (FILES["RGB"][:2000], FILES["tiles"][:5000]):
        for config in (decode_config(backend="ffmpeg"), decode_config("jpeg2000")):
            try:
                load_image(data, decode_config=config)
            except RuntimeError as error:
                assert "cannot decode the" in str(error)  # noqa: PT017 - it may show what there is.
    assert open_with_ours(FILES["RGB"][:2000]) is None


def test_no_other_backend_reads_it_by_itself() -> None:
    with pytest.raises(RuntimeError, match="openjpeg decodes JPEG 2000 only"):
        load_image(encode(IMAGE, "PNG"), decode_config=decode_config(backend="openjpeg"))
    assert colours("sRGB") in FILES["RGB"]


# ---- Small files that ask for much work ------------------------------------------------------------------------------


def flat_code(side: int, tile: int, layers: int, precincts: bytes = b"") -> bytes:
    """Make a code of gray whose tiles hold nothing."""
    tiles = ((side + tile - 1) // tile) ** 2
    size = struct.pack(">HHIIIIIIIIH", 41, 0, side, side, 0, 0, tile, tile, 0, 0, 1) + b"\7\1\1"
    style = struct.pack(">HBBHB", 12 + len(precincts), len(precincts), 0, layers, 0) + b"\0\0\0\0\1" + precincts
    parts = b"".join(b"\xff\x90" + struct.pack(">HHIBB", 10, i, 15, 0, 1) + b"\xff\x93\0" for i in range(tiles))
    return b"\xff\x4f\xff\x51" + size + b"\xff\x52" + style + b"\xff\x5c\0\4\x40\x40" + parts + b"\xff\xd9"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (flat_code(512, 512, 65535, b"\x22"), "its 16641 blocks lie in 65535 layers, which are too many"),
        (flat_code(100, 1, 1), "it is divided into 10000 tiles, which are too many for its size"),
    ],
)
def test_more_work_than_pixels_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        load_image(data)


def test_the_size_is_checked_before_there_are_tiles() -> None:
    with pytest.raises(RuntimeError, match="its size of 60x60 is outside what is accepted"):
        load_image(flat_code(60, 1, 1), decode_config=decode_config(max_pixels=1))
