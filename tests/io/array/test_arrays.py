"""Buffers as the arrays of other libraries: views that keep the memory alive."""

import gc
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.io.images import encode, make_image, make_jpeg

from spdl.io import (
    ArrayInterface,
    CPUBuffer,
    CUDAArrayInterface,
    load_image,
    load_image_batch,
    to_jax,
    to_numba,
    to_numpy,
    to_torch,
)


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


class OnGpu:
    """Looks like an array on a GPU."""

    def __init__(self) -> None:
        self.__cuda_array_interface__ = {"shape": (3,), "typestr": "|u1", "data": (8, False), "version": 3}


class OnCpu:
    """Shows an array by its interface alone."""

    def __init__(self, array: Any) -> None:
        self.__array_interface__ = array.__array_interface__


def test_numba_takes_numpys_view_of_main_memory() -> None:
    buffer = load_image(make_jpeg(40, 30))
    array = to_numba(buffer)
    assert isinstance(array, np.ndarray)
    assert array.ctypes.data == to_numpy(buffer).ctypes.data


def test_what_is_on_a_gpu_is_handed_over_by_its_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    there = OnGpu()
    assert isinstance(there, CUDAArrayInterface)
    assert not isinstance(there, ArrayInterface)
    cuda = ModuleType("numba.cuda")
    vars(cuda)["as_cuda_array"] = lambda given: ("numba", given)
    monkeypatch.setitem(sys.modules, "numba", ModuleType("numba"))
    monkeypatch.setitem(sys.modules, "numba.cuda", cuda)
    assert to_numba(there) == ("numba", there)
    monkeypatch.setattr(torch, "as_tensor", lambda given, device: ("torch", given, device))
    result: Any = to_torch(there)
    assert result == ("torch", there, "cuda")
    wrong: Any = there
    with pytest.raises(RuntimeError, match=r"got .*OnGpu.*It is on a GPU, from where `transfer_buffer_cpu` copies it"):
        to_numpy(wrong)


def test_jax_takes_it_by_dlpack(monkeypatch: pytest.MonkeyPatch) -> None:
    dlpack = ModuleType("jax.dlpack")
    vars(dlpack)["from_dlpack"] = np.from_dlpack
    monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))
    monkeypatch.setitem(sys.modules, "jax.dlpack", dlpack)
    buffer = load_image(make_jpeg(40, 30))
    array: Any = to_jax(buffer)
    assert array.ctypes.data == to_numpy(buffer).ctypes.data
    wrong: Any = OnGpu()
    with pytest.raises(RuntimeError, match=r"`buffer` must be an object with `__dlpack__`, .* got .*OnGpu"):
        to_jax(wrong)


JAX = """
import sys
import numpy as np
from spdl.io import load_image, to_jax, to_numpy
buffer = load_image(sys.argv[1])
view, array = to_numpy(buffer), to_jax(buffer)
print(np.array_equal(np.asarray(array), view), array.unsafe_buffer_pointer() == view.ctypes.data)
"""


def test_jax_itself_sees_the_same_memory(tmp_path: Path) -> None:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("needs JAX")
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(make_jpeg(1000, 800))
    # In a process of its own: JAX keeps its threads.
    done = subprocess.run([sys.executable, "-c", JAX, str(photo)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("True True\n", 0), done.stderr


def test_an_interface_alone_is_enough_for_torch() -> None:
    torch = pytest.importorskip("torch")
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = to_torch(OnCpu(array))
    array[1, 2] = 7
    assert torch.equal(tensor, torch.tensor([[0.0, 1, 2], [3, 4, 7]]))


def test_other_objects_are_refused() -> None:
    wrong: Any = [1, 2]
    functions: list[Any] = [to_numpy, to_numba]
    if importlib.util.find_spec("torch"):
        functions.append(to_torch)
    for function in functions:
        with pytest.raises(RuntimeError, match=r"^`buffer` must be .*__array_interface__.*got \[1, 2\] \("):
            function(wrong)


@pytest.mark.parametrize(
    ("function", "library", "argument"),
    [(to_torch, "torch", None), (to_jax, "jax", None), (to_numba, "numba", OnGpu())],
)
def test_a_missing_library_is_an_import_error_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, function: Any, library: str, argument: Any
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"^{function.__name__} needs .*: pip install 'spdl-turbo\[{library}\]'$"):
        function(argument)
