"""Transforms of other libraries for `ImageLoader`: they move targets, and draw by the key of each sample."""

from __future__ import annotations

import copy
import functools
import importlib
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from spdl._check import check_instance, check_int, refuse
from spdl.dataloader._media.targets import Boxes, InstanceMasks, Keypoints, Mask, Polygons, Target
from spdl.pipeline import ItemContext

if TYPE_CHECKING:
    Array: TypeAlias = np.ndarray[Any, Any]

Targets: TypeAlias = Mapping[str, Target | Mask]
_FORMATS = {"xyxy": "XYXY", "xywh": "XYWH", "cxcywh": "CXCYWH"}


class TorchvisionTransform:
    """A transform of torchvision's v2 for ``ImageLoader(..., transform=...)``: an image and its targets move alike.

    It gets the image as an ``Image`` of ``torchvision.tv_tensors``, and of the targets a `Mask` or `InstanceMasks` as
    ``Mask``, `Boxes` as ``BoundingBoxes`` and `Keypoints` as ``KeyPoints``. Boxes are clipped to the image afterwards,
    and dropped together with what belongs to them, as `Boxes` says, so there is no need for ``SanitizeBoundingBoxes``.

    torchvision draws its random numbers from a generator that all threads share. Here each sample has its own, made of
    the seed, the epoch and its index, so batches repeat, whatever the number of threads. Numbers that a transform draws
    otherwise, such as by numpy, do not.

    Args:
        transform: The transform, such as a ``v2.Compose``.
        targets: Those of the loader; None for images alone.
        seed: The seed of random numbers.

    Raises:
        ImportError: If torchvision is not installed.
        TypeError, ValueError: If an argument is not as described, or the targets have `Polygons`, or `Keypoints` that
            change places in a mirrored image, which the library does not do: mirror by the loader's `augment`.

    Example:
        >>> from torchvision.transforms import v2  # doctest: +SKIP
        >>> from spdl.dataloader import ImageLoader, Values
        >>> targets = {"boxes": Boxes(), "labels": Values(of="boxes")}
        >>> turn = TorchvisionTransform(v2.RandomRotation(15), targets)  # doctest: +SKIP
        >>> ImageLoader(source, 32, size=224, targets=targets, transform=turn)  # doctest: +SKIP
    """

    def __init__(self, transform: Callable[[Any], Any], targets: Targets | None = None, *, seed: int = 0) -> None:
        if not callable(transform):
            refuse(TypeError, "transform", "a transform of torchvision.transforms.v2", transform)
        self._transform = transform
        self._kinds = _check_kinds(targets)
        self._seed = check_int("seed", seed, least=None)
        self._wrappers: Any = importlib.import_module("torchvision.tv_tensors")

    def __call__(self, image: Any, context: ItemContext, targets: Mapping[str, Any] | None = None) -> Any:
        """Return the image, or the image and the targets.

        Raises:
            TypeError: If the image is not a tensor.
            ValueError: If the targets are not those that it was made for.
            Exception: Those of the transform.
        """
        import torch  # noqa: PLC0415 - an optional dependency.

        check_instance("image", image, torch.Tensor, "a tensor, as ImageLoader(output='torch') passes it")
        given = _check_given(self._kinds, targets)
        canvas = {"canvas_size": tuple(image.shape[-2:])}
        sample = {"image": self._wrappers.Image(image), **given}
        for name, kind in self._kinds.items():
            if isinstance(kind, Mask | InstanceMasks):
                sample[name] = self._wrappers.Mask(given[name])
            elif isinstance(kind, Boxes):
                box_format = _FORMATS[kind.output or kind.format]
                sample[name] = self._wrappers.BoundingBoxes(given[name], format=box_format, **canvas)
            elif isinstance(kind, Keypoints):
                sample[name] = self._wrappers.KeyPoints(given[name][..., :2], **canvas)
        with _mode()(context.key(self._seed)):
            returned = self._transform(sample)
        check_instance("transform", returned, Mapping, "a transform that returns a dict like the one that it gets")
        found = dict(returned)
        for name, kind in self._kinds.items():
            if isinstance(kind, Boxes) and name in found:
                found[name] = _in_format(found[name], _FORMATS[kind.output or kind.format])
        done = {
            name: value.as_subclass(torch.Tensor) if isinstance(value, torch.Tensor) else value
            for name, value in found.items()
        }
        for name, kind in self._kinds.items():
            if isinstance(kind, Keypoints) and kind.visibility:
                done[name] = torch.cat([done[name], given[name][..., 2:]], -1)
        moved = done.pop("image")
        return moved if targets is None else (moved, done)


def _in_format(boxes: Any, box_format: str) -> Any:
    """Return boxes in the format in which they were passed, also after a ``ConvertBoundingBoxFormat``."""
    if getattr(boxes, "format", None) in (None, box_format):
        return boxes
    functions = importlib.import_module("torchvision.transforms.v2.functional")
    return functions.convert_bounding_box_format(boxes, new_format=box_format)


class AlbumentationsTransform:
    """Transforms of Albumentations for ``ImageLoader(..., transform=...)``: an image and its targets move alike.

    They are composed with what the targets need. The first `Boxes` are the library's ``bboxes``, so transforms that ask
    for these find them, and the first `Mask`, `InstanceMasks` and `Keypoints` its ``mask``, ``masks`` and
    ``keypoints``. What belongs to a box that is dropped is dropped, too; a point that a transform drops is (-1, -1).
    Each thread has its own composition, since one keeps state while it runs. Random numbers are made of the seed, the
    epoch and the sample's index, so batches repeat, whatever the number of threads.

    Args:
        transforms: A list, as ``albumentations.Compose`` takes it.
        targets, seed: As for `TorchvisionTransform`.

    Raises:
        ImportError: If Albumentations is not installed.
        TypeError, ValueError: For the reasons that `TorchvisionTransform` lists.

    Example:
        >>> import albumentations as A  # doctest: +SKIP
        >>> targets = {"mask": Mask()}
        >>> bend = AlbumentationsTransform([A.ElasticTransform(), A.CoarseDropout()], targets)  # doctest: +SKIP
        >>> ImageLoader(source, 32, size=224, targets=targets, transform=bend)  # doctest: +SKIP
    """

    def __init__(self, transforms: Sequence[Any], targets: Targets | None = None, *, seed: int = 0) -> None:
        if not isinstance(transforms, list | tuple):
            accepted = "a list of transforms, which is composed here"
            refuse(TypeError, "transforms", accepted, transforms, "Of a Compose, pass its `transforms`.")
        self._kinds = _check_kinds(targets)
        self._seed = check_int("seed", seed, least=None)
        library: Any = importlib.import_module("albumentations")
        self._words: dict[str, str] = {}
        further: dict[str, str] = {}
        for kind, word in ((Mask, "mask"), (InstanceMasks, "masks"), (Boxes, "bboxes"), (Keypoints, "keypoints")):
            for number, name in enumerate(name for name, each in self._kinds.items() if isinstance(each, kind)):
                self._words[name] = f"{word}_{number}" if number else word
                if number:
                    further[self._words[name]] = word
        compose = library.Compose(
            list(transforms),
            # Rows have their number as a further column, which says what else to keep.
            bbox_params=library.BboxParams("pascal_voc", filter_invalid_bboxes=True),
            keypoint_params=library.KeypointParams("xy", remove_invisible=False),
            additional_targets=further,
        )
        self._own = _OfThread(compose)

    def __call__(self, image: Any, context: ItemContext, targets: Mapping[str, Any] | None = None) -> Any:
        """Return the image, or the image and the targets.

        Raises:
            ValueError: If the targets are not those that it was made for.
            Exception: Those of the transforms.
        """
        given = {name: np.asarray(value) for name, value in _check_given(self._kinds, targets).items()}
        is_tensor = not isinstance(image, np.ndarray)
        data = {"image": np.ascontiguousarray(image.permute(1, 2, 0).numpy()) if is_tensor else image}
        for name, word in self._words.items():
            kind, value = self._kinds[name], given[name]
            if isinstance(kind, Mask):
                # OpenCV knows no wide types.
                data[word] = value.astype(np.result_type(*map(np.min_scalar_type, (value.min(), value.max()))))
            elif isinstance(kind, Boxes):
                data[word] = _number(kind._read(value, kind.output or kind.format))  # noqa: SLF001 - of ours.
            elif isinstance(kind, Keypoints):
                data[word] = _number(value[..., :2].reshape(-1, 2))
            elif len(value):
                data[word] = value
        compose = self._own.compose
        key = context.key(self._seed)
        compose.set_random_state(np.random.default_rng(key), random.Random(key))  # noqa: S311
        done = compose(**data)
        moved = done["image"]
        if is_tensor and isinstance(moved, np.ndarray):
            moved = image.new_tensor(np.ascontiguousarray(moved.transpose(2, 0, 1)))
        return moved if targets is None else (moved, self._collect(given, done))

    def _collect(self, given: Mapping[str, Array], done: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        own = {name: done[word] for name, word in self._words.items() if word in done}
        kept = {name: own[name][:, -1].astype(int) for name, kind in self._kinds.items() if isinstance(kind, Boxes)}
        for name, kind in self._kinds.items():
            value = own.get(name, given[name])
            if isinstance(kind, Boxes):
                value = kind._write(value[:, :4])  # noqa: SLF001
            elif isinstance(kind, Keypoints):
                points = np.full((given[name][..., 0].size, 2), -1, np.float32)
                points[value[:, -1].astype(int)] = value[:, :2]
                value = np.concatenate([points.reshape(*given[name].shape[:-1], 2), given[name][..., 2:]], -1)
            elif isinstance(kind, InstanceMasks):
                value = np.stack(value) if name in own else np.zeros((0, *done["image"].shape[:2]), np.uint8)
            of = None if isinstance(kind, Mask) else kind.of
            found[name] = value if of is None else value[kept[of]]
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_own": self._own.compose}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({**state, "_own": _OfThread(state["_own"])})


class _OfThread(threading.local):
    """Each thread's copy of a composition, since it keeps its generator in itself."""

    def __init__(self, compose: Any) -> None:
        self.compose = copy.deepcopy(compose)


def _check_kinds(targets: Targets | None) -> dict[str, Target | Mask]:
    check_instance("targets", targets, (Mapping, type(None)), "the `targets` of the loader, or None")
    for name, kind in (targets or {}).items():
        check_instance(f"targets[{name!r}]", kind, (Target, Mask), "as in the `targets` of the loader")
        if isinstance(kind, Polygons):
            remedy = "InstanceMasks moves the same outlines as masks."
            refuse(ValueError, f"targets[{name!r}]", "a target that the library knows", kind, remedy)
        if isinstance(kind, Keypoints) and kind.swap:
            remedy = (
                "Only the flips of the loader's `augment` exchange points: leave the library's out, and `swap` here."
            )
            refuse(ValueError, f"targets[{name!r}]", "Keypoints without `swap`", kind, remedy)
    return dict(targets or {})


def _check_given(kinds: Targets, targets: Mapping[str, Any] | None) -> dict[str, Any]:
    given = dict(targets or {})
    if given.keys() != kinds.keys():
        refuse(ValueError, "targets", f"the same as the loader's: {tuple(given)}", tuple(kinds))
    return given


def _number(rows: Array) -> Array:
    return np.column_stack([rows, np.arange(len(rows))]).astype(np.float32)


@functools.cache
def _mode() -> Any:
    """Return a context, to be made with a key, in which a thread's random functions of PyTorch draw from that."""
    import torch  # noqa: PLC0415
    from torch.overrides import TorchFunctionMode  # noqa: PLC0415

    functions = {getattr(torch, name) for name in _FUNCTIONS} | {getattr(torch.Tensor, name) for name in _METHODS}
    try:
        torch.rand_like(torch.zeros(0), generator=torch.Generator())
    except TypeError:  # An older PyTorch.
        functions -= {getattr(torch, name) for name in _LIKE}

    class OwnDraws(TorchFunctionMode):  # type: ignore[misc] # PyTorch is untyped here.
        def __init__(self, key: int) -> None:
            super().__init__()
            self._generator = torch.Generator().manual_seed(key)

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function in functions:
                kwargs = {"generator": self._generator, **(kwargs or {})}
            return function(*args, **(kwargs or {}))

    return OwnDraws


_SHARED = ("bernoulli", "multinomial")
_LIKE = ("rand_like", "randn_like", "randint_like")
_FUNCTIONS = (*_SHARED, *_LIKE, "rand", "randn", "randint", "randperm", "normal", "poisson", "_sample_dirichlet")
_METHODS = (*_SHARED, "uniform_", "normal_", "random_", "bernoulli_", "exponential_", "cauchy_", "geometric_")
