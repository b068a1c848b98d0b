"""A sample that the source refuses is left out, replaced or raised, as one that cannot be decoded is."""

from __future__ import annotations

import gc
import io
import itertools
import json
import tarfile
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, UnidentifiedImageError
from tests.io.images import make_jpeg
from tests.io.tars import make_tar
from tests.source.counting_store import CountingStore

from spdl.dataloader import ArrayLoader, AudioLoader, ClipLoader, ImageLoader, ImageShards
from spdl.io import LoadError
from spdl.source import JsonLines, MappedRecords, SequentialOrder, TarShards
from spdl.store import LocalStore, StoreError
from spdl.testing import assert_resumes_exactly

PLACE: dict[str, Any] = {"output": "numpy", "rank": 0, "world_size": 1}
SIZE = 8


def make_png(seed: int) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (SIZE, SIZE, 3), np.uint8)
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


PNGS = [make_png(seed) for seed in range(4)]
# What may be in the place of a part: a photo of so many, no photo, or nothing.
IMAGES = st.sampled_from([0, 1, 2, 3, "broken", None])


@st.composite
def archives(draw: st.DrawFn) -> list[list[tuple[str, bytes]]]:
    """Draw the members of some archives, whose samples lack some parts or have them by other names."""
    found = []
    number = itertools.count()
    for _ in range(draw(st.integers(1, 3))):
        members = []
        for _ in range(draw(st.integers(0, 7))):
            key = f"{next(number):04}"
            image, label = draw(IMAGES), draw(st.sampled_from([b"0", b"1", b"17", b"", b"cat", None]))
            if image is not None:
                content = b"no photo" if isinstance(image, str) else PNGS[image]
                members.append((f"{key}.{draw(st.sampled_from(['png', 'bmp', 'webp']))}", content))
            if label is not None:
                members.append((f"{key}.cls", label))
            members.append((f"{key}.json", b"{}"))
        found.append(members)
    return found


def expect(paths: list[Path]) -> list[tuple[Any, int] | None]:
    """Return the pixels and the label of each sample, None for those without, by other libraries."""
    found: list[tuple[Any, int] | None] = []
    for path in paths:
        samples: dict[str, dict[str, bytes]] = {}
        with tarfile.open(path) as archive:
            for member in archive:
                key, _, part = member.name.partition(".")
                file = archive.extractfile(member)
                assert file is not None
                samples.setdefault(key, {})[part] = file.read()
        for parts in samples.values():
            content = parts.get("png", parts.get("webp"))
            try:
                image = np.asarray(Image.open(io.BytesIO(content or b""))).transpose(2, 0, 1)
                found.append((image, int(parts["cls"])))
            except (KeyError, UnidentifiedImageError, ValueError):
                found.append(None)
    return found


def to_pair(parts: Any) -> dict[str, Any]:
    return {"image": parts["png;webp"], "label": int(bytes(parts["cls"]))}


@settings(max_examples=60, deadline=None)
@given(members=archives(), batch_size=st.integers(1, 5), stored=st.booleans(), threads=st.integers(1, 3))
def test_what_is_left_is_what_other_libraries_read(
    members: list[list[tuple[str, bytes]]],
    batch_size: int,
    stored: bool,  # noqa: FBT001
    threads: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"train-{number}.tar") for number in range(len(members))]
        for path, each in zip(paths, members, strict=True):
            path.write_bytes(make_tar(each))
        expected = expect(paths)
        pattern = f"train-{{0..{len(paths) - 1}}}.tar"
        if not expected:
            with pytest.raises(ValueError, match="`shards` must be archives with samples"):
                TarShards(Path(folder, pattern))
            return
        options: dict[str, Any] = {"store": CountingStore(Path(folder)), "cache": Path(folder, "cache")}
        samples = TarShards(pattern, **options) if stored else TarShards(Path(folder, pattern))
        more: dict[str, Any] = {"size": SIZE, "dtype": "uint8", "num_threads": threads, **PLACE}
        loader = ImageLoader(MappedRecords(samples, to_pair), batch_size, on_error="skip", **more)
        sound = [index for index, each in enumerate(expected) if each is not None]
        if sound:
            batches = list(loader)
        else:
            with pytest.raises(LoadError, match="All images of epoch 0 failed"):
                list(loader)
            batches = []
        # The same samples, in batches that end where those of all samples do.
        assert [batch.index.tolist() for batch in batches] == [
            list(group) for _, group in itertools.groupby(sound, lambda index: index // batch_size)
        ]
        for batch in batches:
            for image, label, index in zip(batch.image, batch.label, batch.index, strict=True):
                pair = expected[index]
                assert pair is not None
                assert (np.array_equal(image, pair[0]), int(label)) == (True, pair[1])
        assert sorted(it.index for it in loader.failures) == [it for it in range(len(expected)) if it not in sound]
        for failure in loader.failures:
            archive, sample = samples.locate(failure.index)
            assert failure.path == f"{archive}/{sample.key}"
        # Others take the places, and nothing else is different.
        loader = ImageLoader(MappedRecords(samples, to_pair), batch_size, on_error="refill", seed=3, **more)
        if not sound:
            with pytest.raises(LoadError, match=r"could be loaded either|no other sample"):
                list(loader)
            return
        batches = list(loader)
        indices = [index for batch in batches for index in batch.index.tolist()]
        # What was tried in a place in vain is listed, too.
        replaced = {(failure.index, failure.replacement) for batch in batches for failure in batch.failures}
        assert [index == place for place, index in enumerate(indices)] == [
            place in sound for place in range(len(indices))
        ]
        assert set(indices) <= set(sound)
        again = ImageLoader(MappedRecords(samples, to_pair), 1, on_error="refill", seed=3, **more)
        assert [index for batch in again for index in batch.index.tolist()] == indices
        assert {(place, index) for place, index in enumerate(indices) if place not in sound} <= replaced


def write(folder: Path, count: int = 12, bad: Sequence[int] = (4,)) -> TarShards:
    """Write an archive whose bad samples have no image."""
    members = []
    for number in range(count):
        members += [] if number in bad else [(f"{number:03}.jpg", make_jpeg(16, 16, seed=number))]
        members += [(f"{number:03}.cls", b"%d" % number)]
    # A loader that has failed may still read ahead of the one before.
    (folder / "new.tar").write_bytes(make_tar(members))
    return TarShards((folder / "new.tar").replace(folder / "train.tar"))


def to_image(parts: dict[str, Any]) -> dict[str, Any]:
    return {"image": parts["jpg"], "label": int(bytes(parts["cls"])), "key": parts["__key__"]}


def make(source: Any, batch_size: int = 3, **options: Any) -> ImageLoader:
    return ImageLoader(source, batch_size, **{"size": SIZE, "num_threads": 2, **PLACE, **options})


def test_the_error_names_the_archive_the_key_and_the_parts(tmp_path: Path) -> None:
    pairs = MappedRecords(write(tmp_path), to_image)
    batches = iter(make(pairs))
    assert next(batches).index.tolist() == [0, 1, 2]
    with pytest.raises(KeyError) as raised:
        next(batches)
    assert f"the sample '004' of {tmp_path}/train.tar has 'cls', but no part 'jpg'" in raised.value.args[0]
    assert f"record 4 of TarShards: 12 records in 1 archives: {tmp_path}/train.tar/004" in raised.value.__notes__[0]
    assert raised.value.__notes__[-1].startswith('Pass on_error="skip" to leave such samples out')
    # Also where the archive's parts have nothing to do with it.
    captions: dict[str, str] = {}
    fails: MappedRecords[dict[str, Any]] = MappedRecords(
        write(tmp_path, bad=()), lambda parts: parts | {"image": captions["caption"]}
    )
    with pytest.raises(KeyError) as raised:
        list(make(fails))
    assert f"{tmp_path}/train.tar/000 with the fields ['__key__', 'jpg', 'cls']" in raised.value.__notes__[0]


def test_a_failure_is_listed_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    loader = make(MappedRecords(write(tmp_path), to_image), on_error="skip")
    batches = list(loader)
    assert [batch.index.tolist() for batch in batches] == [[0, 1, 2], [3, 5], [6, 7, 8], [9, 10, 11]]
    (failure,) = loader.failures
    assert batches[1].failures == (failure,)
    assert (failure.index, failure.path, failure.replacement) == (4, f"{tmp_path}/train.tar/004", None)
    assert failure.reason.startswith("KeyError: ")
    assert "has 'cls', but no part 'jpg'" in failure.reason
    assert f"ImageLoader, failure 1: sample 4, '{tmp_path}/train.tar/004', was left out: KeyError" in caplog.text
    caplog.clear()
    list(make(MappedRecords(write(tmp_path), to_image), on_error="refill", rank=1, world_size=2))
    assert "ImageLoader, rank 1, failure 1: sample 4, " in caplog.text


def test_an_image_that_cannot_be_decoded_has_the_name_of_its_sample(tmp_path: Path) -> None:
    (tmp_path / "train.tar").write_bytes(make_tar([("a/1.jpg", b"no photo"), ("a/1.cls", b"1")]))
    with pytest.raises(LoadError, match=f"sample 0, '{tmp_path}/train.tar/a/1': cannot read"):
        list(make(MappedRecords(TarShards(tmp_path / "train.tar"), to_image)))
    (tmp_path / "lines.jsonl").write_text('{"image": "none.jpg"}\n{"image": null}\n')
    lines = JsonLines(tmp_path / "lines.jsonl", cache=tmp_path)
    with pytest.raises(
        LoadError, match=r"sample 0, 'none.jpg': .*\n  sample 1, '.*lines.jsonl, record 1': `image` must"
    ):
        list(make(lines))


@pytest.mark.parametrize("sample", [None, {"image": None, "label": 4, "key": "004"}])
def test_a_function_may_return_none(tmp_path: Path, sample: Any) -> None:
    pairs = MappedRecords(write(tmp_path), lambda parts: to_image(parts) if "jpg" in parts else sample)
    reason = "the sample is None" if sample is None else "`image` must be a path or the bytes of a file, .*, got None"
    with pytest.raises(LoadError, match=f"1 of 3 images .*\n  sample 4, '{tmp_path}/train.tar/004': {reason}"):
        list(make(pairs))
    loader = make(pairs, on_error="skip")
    assert [index for batch in loader for index in batch.index.tolist()] == [0, 1, 2, 3, *range(5, 12)]
    assert [failure.index for failure in loader.failures] == [4]


class Refusing(Sequence[Any]):
    """Raises an error for some samples; for what is done with them all, see `Together`."""

    def __init__(self, error: Exception, bad: Sequence[int] = (4,), count: int = 12) -> None:
        self.error = error
        self.bad = bad
        self.size = count
        self.reads: list[list[int]] = []

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> Any:
        if index in self.bad:
            raise self.error
        return make_jpeg(16, 16, seed=index), index


class Together(Refusing):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        self.reads.append(indices)
        return [self[index] for index in indices]


OF_THE_SAMPLE = [
    KeyError("jpg"),
    ValueError("no number"),
    IndexError("list index out of range"),
    TypeError("'NoneType' object is not subscriptable"),
    AssertionError(),
    StopIteration(),
    FileNotFoundError(2, "No such file or directory", "4.jpg"),
    UnidentifiedImageError("cannot identify image file"),
    OSError("image file is truncated (2 bytes not processed)"),
]
OF_OTHERS = [
    OSError(5, "Input/output error"),
    PermissionError(13, "Permission denied", "4.jpg"),
    ConnectionResetError("the storage went away"),
    TimeoutError(),
    StoreError("4.jpg in Store: 503"),
    MemoryError(),
    ImportError("no module"),
    NameError("name 'jsn' is not defined"),
]


@pytest.mark.parametrize("kind", [Refusing, Together])
@pytest.mark.parametrize("error", OF_THE_SAMPLE, ids=repr)
def test_what_is_wrong_with_a_sample_fails_it_alone(kind: Any, error: Exception) -> None:
    loader = make(kind(error), on_error="skip")
    assert [index for batch in loader for index in batch.label.tolist()] == [0, 1, 2, 3, *range(5, 12)]
    assert [(it.index, it.path) for it in loader.failures] == [(4, None)]
    assert loader.failures[0].reason == f"{type(error).__name__}: {error}".removesuffix(": ")
    loader = make(kind(error), on_error="refill")
    labels = [index for batch in loader for index in batch.label.tolist()]
    assert labels == [0, 1, 2, 3, loader.failures[0].replacement, *range(5, 12)]


@pytest.mark.parametrize("on_error", ["skip", "refill"])
@pytest.mark.parametrize("kind", [Refusing, Together])
@pytest.mark.parametrize("error", OF_OTHERS, ids=repr)
def test_what_is_wrong_with_the_storage_or_the_program_is_raised(kind: Any, error: Exception, on_error: str) -> None:
    source = kind(error)
    loader = make(source, on_error=on_error)
    batches = iter(loader)
    assert next(batches).index.tolist() == [0, 1, 2]
    with pytest.raises(type(error)) as raised:
        next(batches)
    assert raised.value is error
    assert any("spdl.dataloader was looking up" in note for note in error.__notes__)
    assert (loader.state_dict()["position"], loader.failures) == (3, [])
    # When the storage is back, the epoch goes on with what was not received.
    source.bad = ()
    loader.load_state_dict(loader.state_dict())
    assert [index for batch in loader for index in batch.label.tolist()] == list(range(3, 12))


def test_an_interrupt_is_not_a_failure() -> None:
    with pytest.raises(BaseException) as raised:  # noqa: PT011 - how it gets here is not what counts.
        list(make(Refusing(KeyboardInterrupt("stop")), on_error="skip"))  # type: ignore[arg-type]
    assert "KeyboardInterrupt" in repr(raised.value) + repr(getattr(raised.value, "exceptions", ()))


def test_an_order_beyond_the_source_is_no_failure_of_samples() -> None:
    for kind in (Refusing, Together):
        source = kind(IndexError("there is none"), bad=range(12, 20))
        with pytest.raises(IndexError, match=r"order 'sequential.*' chooses sample \d+, and the source has only 12"):
            list(make(source, order=SequentialOrder(20), on_error="skip"))


def test_few_reads_single_out_few_samples() -> None:
    source = Together(KeyError("jpg"), bad=(77, 300), count=512)
    loader = ArrayLoader(source, 512, on_error="skip", **PLACE)
    with pytest.raises(LoadError):  # They are no arrays; what counts is how they were read.
        list(loader)
    assert {failure.index for failure in loader.failures if "KeyError" in failure.reason} == {77, 300}
    assert len(source.reads) < 40


def test_a_function_that_refuses_some_costs_no_second_read(tmp_path: Path) -> None:
    write(tmp_path)
    store = CountingStore(tmp_path)
    samples = TarShards("train.tar", store=store, cache=tmp_path / "cache")
    store.requests.clear()
    list(make(MappedRecords(samples, to_image), 12, on_error="skip"))
    assert len(store.requests) == 1


class Photo(np.ndarray[Any, Any]):
    """The bytes of a photo, of which it is known whether someone still has them."""


class Watched(Together):
    def __getitem__(self, index: Any) -> Any:
        if index in self.bad:
            # Each time a new one, which has frames of its own.
            raise KeyError(index)
        image = np.frombuffer(make_jpeg(16, 16, seed=index), np.uint8).view(Photo)
        self.photos.append(weakref.ref(image))
        return image, index

    photos: list[weakref.ref[Photo]]


@pytest.mark.parametrize("on_error", ["skip", "refill"])
def test_what_was_read_is_not_kept_by_an_exception(on_error: str) -> None:
    source = Watched(KeyError("jpg"), bad=(4, 7))
    source.photos = []
    gc.disable()
    try:
        assert sum(len(batch.label) for batch in make(source, 6, on_error=on_error)) >= 10
        assert [photo for photo in source.photos if photo() is not None] == []
    finally:
        gc.enable()


class Flaky(Together):
    """Fails only if several are asked for: none of them is to blame."""

    def __getitem__(self, index: Any) -> Any:
        return make_jpeg(16, 16, seed=index), index

    def __getitems__(self, indices: list[int]) -> list[Any]:
        if len(indices) > 1:
            raise self.error
        return super().__getitems__(indices)


def test_what_no_sample_is_to_blame_for_is_raised() -> None:
    with pytest.raises(ValueError, match="too many"):
        list(make(Flaky(ValueError("too many")), on_error="skip"))


def test_an_archive_that_was_replaced_is_not_left_out(tmp_path: Path) -> None:
    stores: list[Any] = [CountingStore(tmp_path), LocalStore(tmp_path)]
    for store in stores:
        write(tmp_path, bad=())
        samples = TarShards("train.tar", store=store, cache=tmp_path / "cache")
        write(tmp_path, bad=(1,))
        # One of them tells versions; of the other the headers are compared.
        with pytest.raises(ValueError, match=r"train\.tar.*(written again|has changed) since"):
            list(make(MappedRecords(samples, to_image), on_error="skip"))


def test_a_sample_with_a_part_twice_is_left_out(tmp_path: Path) -> None:
    members = [(f"{number}.{part}", b"%d" % number) for number in range(3) for part in ("cls", "txt")]
    members[3] = ("1.cls", b"5")
    members += [("3.jpg", make_jpeg(16, 16)), ("3.cls", b"3")]
    (tmp_path / "train.tar").write_bytes(make_tar(members))
    loader = make(MappedRecords(TarShards(tmp_path / "train.tar"), to_image), 4, on_error="skip")
    assert [batch.label.tolist() for batch in loader] == [[3]]
    assert "has the part 'cls' twice" in loader.failures[1].reason
    assert loader.failures[1].path == f"{tmp_path}/train.tar, sample 1"


def test_a_label_that_cannot_be_read_is_a_failure_of_its_sample(tmp_path: Path) -> None:
    members = [(f"{n}.jpg", make_jpeg(16, 16, seed=n)) for n in range(3)]
    members = [each for n, image in enumerate(members) for each in (image, (f"{n}.cls", b"cat" if n == 1 else b"7"))]
    (tmp_path / "train.tar").write_bytes(make_tar(members))
    loader = make(ImageShards([tmp_path / "train.tar"]), on_error="skip")
    assert [batch.index.tolist() for batch in loader] == [[0, 2]]
    assert "in its part 'cls' is not a whole number: b'cat'" in loader.failures[0].reason


def test_the_first_batch_may_have_none(tmp_path: Path) -> None:
    pairs = MappedRecords(write(tmp_path, bad=(0, 1, 2, 4)), to_image)
    loader = make(pairs, on_error="skip")
    assert [batch.key for batch in loader] == [["003", "005"], ["006", "007", "008"], ["009", "010", "011"]]
    loader = make(pairs, on_error="refill")
    for batch in loader:
        assert batch.key == [f"{index:03}" for index in batch.index.tolist()] == [f"{it:03}" for it in batch.label]
        assert len(batch.key) == 3
    alone = make(MappedRecords(write(tmp_path, count=1, bad=(0,)), to_image), on_error="refill")
    with pytest.raises(LoadError, match="There is no other sample to put in their place"):
        list(alone)


def test_one_that_takes_a_place_must_have_the_fields_of_the_others() -> None:
    image = make_jpeg(16, 16)
    samples: list[Any] = [{"image": image, "label": 0}, None, {"image": image, "label": 2, "caption": "a cat"}]
    # Of three samples one of the others comes first, whatever the seed; one of these seeds draws the last one.
    said = []
    for seed in range(8):
        try:
            list(make(samples[:], 2, on_error="refill", seed=seed))
        except TypeError as error:
            said.append(str(error))
    assert said
    assert all("`source[2]` must be a sample with the fields image, label" in each for each in said)


@pytest.mark.parametrize("kind", [ClipLoader, AudioLoader])
def test_other_loaders_do_the_same(kind: Any) -> None:
    options: dict[str, Any] = {"num_frames": 2, "size": 8} if kind is ClipLoader else {"sample_rate": 8, "seconds": 1}
    loader = kind(Refusing(KeyError("mp4"), bad=range(12)), 3, on_error="skip", **options, **PLACE)
    with pytest.raises(LoadError, match=r"All .* of epoch 0 failed\. The last reason: KeyError: 'mp4'"):
        list(loader)


@pytest.mark.parametrize("on_error", ["skip", "refill"])
def test_a_state_goes_on_exactly(tmp_path: Path, on_error: str) -> None:
    pairs = MappedRecords(write(tmp_path, bad=(1, 2, 5, 10)), to_image)

    def make_loader(batch_size: int) -> ImageLoader:
        return make(pairs, batch_size, shuffle=True, seed=4, on_error=on_error, num_threads=1)

    assert_resumes_exactly(make_loader, batch=(1, 4), epochs=2, items=lambda batch: batch.index.tolist())
    whole = make_loader(3)
    records, states, steps = [], [], []
    for batch in whole:
        steps.append((batch.index.tolist(), batch.failures))
        records.append(whole.failures)
        states.append(json.loads(json.dumps(whole.state_dict())))
    for cut, state in enumerate(states):
        resumed = make_loader(3)
        resumed.load_state_dict(state)
        assert resumed.failures == records[cut]
        if cut < len(states) - 1:
            assert [(batch.index.tolist(), batch.failures) for batch in resumed] == steps[cut + 1 :]


def test_reasons_of_a_source_show_neither_secrets_nor_control_characters(caplog: pytest.LogCaptureFixture) -> None:
    class Refusing(Sequence[Any]):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: Any) -> Any:
            if index:
                raise ValueError("\x1b[31m\r\n https://u:PASSWORD@h/x?sig=SECRET")
            return PNGS[0]

    loader = ImageLoader(Refusing(), 2, size=SIZE, on_error="skip", **PLACE)
    (batch,) = loader
    state = str(loader.state_dict())
    for text in (batch.failures[0].reason, caplog.text.rstrip("\n"), state):
        assert "ValueError" in text
        assert text.isprintable()
        assert "PASSWORD" not in text
        assert "SECRET" not in text
