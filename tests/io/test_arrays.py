"""Buffers as the arrays of other libraries: views that keep the memory alive."""

import gc
import sys
from typing import Any

import numpy as np
import pytest
from PIL import Image

from spdl.io import ArrayInterface, CPUBuffer, load_image, load_image_batch, to_numpy, to_torch
from tests.io.images import encode, make_image, make_jpeg


def test_a_buffer_describes_itself() -> None:
    buffer = load_image(make_jpeg(40, 30))
    assert isinstance(buffer, CPUBuffer)
    assert isinstance(buffer, ArrayInterface)
    assert (buffer.shape, buffer.ndim, buffer.nbytes, buffer.dtype, len(buffer)) == ((30, 40, 3), 3, 3600, "uint8", 30)
    assert repr(buffer) == "CPUBuffer(shape=(30, 40, 3), dtype=uint8)"
    interface = buffer.__array_interface__
    assert interface["version"] == 3
    assert interface["shape"] == (30, 40, 3)
    assert interface["typestr"] == "|u1"
    assert interface["strides"] is None
    assert interface["data"][1] is False


def test_numpy_and_torch_see_the_same_writable_memory() -> None:
    torch = pytest.importorskip("torch")
    buffer = load_image(make_jpeg(40, 30))
    array, tensor = to_numpy(buffer), to_torch(buffer)
    assert array.flags.writeable
    assert tensor.dtype is torch.uint8
    assert tuple(tensor.shape) == array.shape
    array[3, 4, 1] = 7
    assert tensor[3, 4, 1] == 7
    tensor[3, 4, 1] = 9
    assert array[3, 4, 1] == 9
    assert tensor.data_ptr() == array.ctypes.data == buffer.__array_interface__["data"][0]


def test_views_keep_the_memory_alive_and_let_go_of_it() -> None:
    torch = pytest.importorskip("torch")
    assert torch
    buffer = load_image(make_jpeg(40, 30))
    expected = to_numpy(buffer).copy()
    before = sys.getrefcount(buffer)
    array, tensor = to_numpy(buffer), to_torch(buffer).permute(2, 0, 1)
    del buffer
    gc.collect()
    churn = [load_image(make_jpeg(40, 30, seed)) for seed in range(8)]
    assert len(churn) == 8
    np.testing.assert_array_equal(array, expected)
    np.testing.assert_array_equal(tensor.permute(1, 2, 0).numpy(), expected)
    again: Any = array
    while not isinstance(again, CPUBuffer):
        again = again.base if isinstance(again, np.ndarray) else again.obj
    del array, tensor
    gc.collect()
    assert sys.getrefcount(again) <= before


def test_deep_images_keep_their_depth() -> None:
    torch = pytest.importorskip("torch")
    gradient = np.linspace(0, 65535, 30 * 40).astype(np.uint16).reshape(30, 40)
    buffer = load_image(encode(Image.fromarray(gradient), "PNG"), filter_desc=None)
    assert buffer.dtype == "uint16"
    np.testing.assert_array_equal(to_numpy(buffer)[..., 0], gradient)
    assert to_torch(buffer).dtype is torch.uint16


def test_dlpack_names_the_cpu_and_serves_numpy() -> None:
    buffer = load_image_batch([encode(make_image(8, 6), "PNG")] * 2, width=None, height=None)
    assert tuple(buffer.__dlpack_device__()) == (1, 0)
    view: Any = buffer
    np.testing.assert_array_equal(np.from_dlpack(view), to_numpy(buffer))


def test_other_objects_are_refused() -> None:
    wrong: Any = [1, 2]
    with pytest.raises(RuntimeError, match=r"__array_interface__.*got list"):
        to_numpy(wrong)
    pytest.importorskip("torch")
    with pytest.raises(RuntimeError, match=r"__array_interface__.*got list"):
        to_torch(wrong)


def test_a_missing_torch_is_an_import_error_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="pip install torch"):
        to_torch(load_image(make_jpeg()))
