"""transfer_tensor_h2d and transfer_tensor_d2h: structures of PyTorch's tensors.

Without a GPU, PyTorch's own CPU tensors play it: what is tested here is the structures, the stream and the order of the
calls. That the tensors arrive is tested on a GPU.
"""

import contextlib
import dataclasses
import types
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from spdl.io import transfer_tensor, transfer_tensor_d2h, transfer_tensor_h2d

torch = pytest.importorskip("torch")


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass(frozen=True)
class Record:
    image: Any
    name: str
    number: dataclasses.InitVar[int] = 3
    made: list[str] = dataclasses.field(default_factory=list, init=False)


class Odd(Mapping[str, Any]):
    """A mapping that no dict makes."""

    def __init__(self, key: str, value: Any) -> None:
        self._items = {key: value}

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


class Gpu:
    """Takes down what PyTorch is asked to do with a GPU, and does it in main memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.streams = 0

        def pin(tensor: Any) -> Any:
            self.log.append("pin")
            return tensor

        def to(tensor: Any, device: Any, *, non_blocking: bool) -> Any:
            assert non_blocking
            self.log.append(f"to {device}")
            return tensor + 100

        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "Stream", self.make_stream)
        monkeypatch.setattr(torch.cuda, "stream", self.enter)
        monkeypatch.setattr(torch.cuda, "default_stream", lambda device: f"default of {device}")
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"current of {device}")
        monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
        monkeypatch.setattr(torch.Tensor, "is_pinned", lambda _: False)
        monkeypatch.setattr(torch.Tensor, "to", to)
        monkeypatch.setattr(torch.Tensor, "record_stream", lambda _, stream: self.log.append(f"record {stream}"))

    def make_stream(self, device: Any) -> Any:
        self.streams += 1
        name = f"stream {self.streams} of {device}"
        return types.SimpleNamespace(
            name=name,
            synchronize=lambda: self.log.append(f"synchronize {name}"),
            wait_stream=lambda other: self.log.append(f"{name} waits for {other}"),
            wait_event=lambda event: self.log.append(f"{name} waits for {event}"),
        )

    def enter(self, stream: Any) -> Any:
        self.log.append(f"enter {stream.name}")
        return contextlib.nullcontext()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    return Gpu(monkeypatch)


def in_new_thread(*args: Any, **options: Any) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(transfer_tensor_h2d, *args, **options).result()


def test_the_calls_come_in_this_order(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert in_new_thread(torch.ones(2)).tolist() == [101, 101]
    assert gpu.log == [
        "enter stream 1 of cuda:3",
        "pin",
        "to cuda:3",
        "record default of cuda:3",
        "synchronize stream 1 of cuda:3",
    ]


def test_a_rank_that_is_no_number_is_named(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in ("", "-1", "cuda:0", "٣"):
        monkeypatch.setenv("LOCAL_RANK", rank)
        for transfer in (transfer_tensor_h2d, transfer_tensor_d2h):
            with pytest.raises(ValueError, match=f"LOCAL_RANK must be the number of this process's GPU.*got {rank!r}$"):
                transfer(torch.ones(2))
    assert gpu.log == []


def test_structures_are_kept(gpu: Gpu) -> None:
    one, sent = torch.tensor([1]), torch.tensor([101])
    lists = defaultdict(list, {"a": [one]})
    batch = {
        "list": [one, "text", 3, None],
        "tuple": (one, (one,)),
        "named": Pair(one, [one]),
        "ordered": OrderedDict(b=one, a=one),
        "default": lists,
        "record": Record(one, "name"),
        "odd": Odd("key", one),
        "bytes": b"bytes",
    }
    result = in_new_thread(batch)
    assert result == {
        "list": [sent, "text", 3, None],
        "tuple": (sent, (sent,)),
        "named": Pair(sent, [sent]),
        "ordered": OrderedDict(b=sent, a=sent),
        "default": {"a": [sent]},
        "record": Record(sent, "name"),
        "odd": {"key": sent},
        "bytes": b"bytes",
    }
    assert [type(value) for value in result.values()] == [
        list, tuple, Pair, OrderedDict, defaultdict, Record, dict, bytes,
    ]  # fmt: skip
    assert result["default"].default_factory is list
    # The argument is unchanged.
    assert batch["record"] == Record(one, "name")
    assert lists == {"a": [one]}


def test_each_thread_has_a_stream_for_good(gpu: Gpu) -> None:
    for _ in range(2):
        with ThreadPoolExecutor(1) as pool:
            for _ in range(3):
                pool.submit(transfer_tensor_h2d, torch.ones(1)).result()
    assert [entry for entry in gpu.log if entry.startswith("enter")] == [
        *["enter stream 1 of cuda:0"] * 3,
        *["enter stream 2 of cuda:0"] * 3,
    ]


@pytest.mark.parametrize("num_caches", [0, 1, 3])
def test_the_last_batches_are_kept(gpu: Gpu, num_caches: int) -> None:
    with ThreadPoolExecutor(1) as pool:
        sent = [
            weakref.ref(pool.submit(transfer_tensor_h2d, torch.ones(1), num_caches=num_caches).result())
            for _ in range(6)
        ]
        pool.submit(int).result()
        assert [reference() is not None for reference in sent] == [False] * (6 - num_caches) + [True] * num_caches


def test_the_older_name_says_so(gpu: Gpu) -> None:
    with pytest.warns(FutureWarning, match="is now called transfer_tensor_h2d") as caught:
        assert transfer_tensor(torch.ones(1), num_caches=0).tolist() == [101]
    assert caught[0].filename == __file__


def test_back_after_what_made_the_tensors(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = {"score": torch.ones(2)}
    own = gpu.make_stream("cuda:1")

    def fetch(**options: Any) -> list[str]:
        gpu.log.clear()
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(lambda: transfer_tensor_d2h(batch, **options)).result() == batch
        return gpu.log

    assert fetch(device=1, stream=own) == [
        "stream 1 of cuda:1 waits for current of cuda:1",
        "enter stream 1 of cuda:1",
        "synchronize stream 1 of cuda:1",
    ]
    assert fetch(producer_event="event")[0] == "stream 2 of cuda:0 waits for event"


def test_without_a_gpu() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    batch = {"a": torch.ones(1)}
    assert transfer_tensor_d2h(batch) is batch
    with pytest.raises(
        RuntimeError, match=r"^transfer_tensor_h2d needs a GPU, but this PyTorch was built without CUDA"
    ):
        transfer_tensor_h2d(batch)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"^`device` must be given with a `stream`.*, got None "):
        transfer_tensor_d2h([], stream=object())
    with pytest.raises(ValueError, match="`num_caches` must be an int of at least 0, got -1"):
        transfer_tensor_h2d([], num_caches=-1)


@pytest.mark.cuda
def test_tensors_arrive_on_a_gpu_and_come_back() -> None:
    batch = {"image": torch.arange(1 << 20).view(1024, 1024), "rest": [torch.rand(3), "text"]}
    with ThreadPoolExecutor(4) as pool:
        for sent in pool.map(transfer_tensor_h2d, [batch] * 20):
            assert str(sent["image"].device) == "cuda:0"
            doubled = {"image": sent["image"] * 2, "rest": sent["rest"]}
            back = transfer_tensor_d2h(doubled)
            assert str(back["image"].device) == "cpu"
            assert back["image"].is_pinned()
            assert torch.equal(back["image"], batch["image"] * 2)
            assert torch.equal(back["rest"][0], batch["rest"][0])
            assert back["rest"][1] == "text"
