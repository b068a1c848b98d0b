"""The targets of the samples of a batch: moved with their images, and brought together."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import numpy as np

from spdl._check import check_choice, check_instance, check_str, refuse, show, shown_place
from spdl.dataloader._loader.tensors import OutputKind, all_to_torch
from spdl.dataloader._media.sample_fields import (
    Ragged,
    RaggedLayout,
    check_names,
    gather,
    lay_out,
    to_array,
    to_objects,
)
from spdl.dataloader._media.targets import Boxes, Mask, Target
from spdl.dataloader._media.windows import find_fault_of_file
from spdl.io import to_numpy
from spdl.io._shared import Place, load_mask_views

if TYPE_CHECKING:
    from spdl.dataloader._media.geometry import Geometry, GeometryRule
    from spdl.io import ImageOptions
    from spdl.io._shared import LoadedViews

    _Views: TypeAlias = Sequence[tuple[GeometryRule, Sequence[Place]]]

_LOG = logging.getLogger("spdl.dataloader")

_WHITE = 255
_OVERVIEW = 64, 64
"""How many pixels of a whole mask are looked at."""

_KINDS = "Mask, Boxes, Keypoints, Polygons, InstanceMasks and Values by the names of fields"


class TargetReader:
    """Moves the targets of samples with their images, and brings those of a batch together.

    Targets in other fields of images, the `groups`, than ``"image"`` have the name of that field in front of theirs.
    `others` are fields that may be lists, since the loader pads them.
    """

    def __init__(
        self,
        targets: Mapping[str, Target | Mask],
        ragged: Ragged,
        options: ImageOptions,
        *,
        output: OutputKind,
        others: Iterable[str] | None,
        groups: Iterable[str],
        several: bool,
    ) -> None:
        check_instance("targets", targets, Mapping, f"a mapping: {_KINDS}")
        rows: dict[str, Target] = {}
        self._masks: dict[str, Mask] = {}
        for name, target in targets.items():
            check_str("targets", name)
            check_instance(f"targets[{name!r}]", target, (Target, Mask), f"one of {_KINDS}")
            if isinstance(target, Mask):
                self._masks[name] = target
                continue
            rows[name] = target
            if target.of is not None and not isinstance(targets.get(target.of), Boxes):
                refuse(ValueError, f"targets[{name!r}].of", "the name of a field of Boxes, or None", target.of)
        for name in others or ():
            if name in targets:
                refuse(ValueError, "pad", "fields that `targets` does not have, which `ragged` lays out", name)
        # Boxes come first: what belongs to them needs to know which are dropped.
        self._targets = dict(sorted(rows.items(), key=lambda item: not isinstance(item[1], Boxes)))
        self.names = (*self._masks, *self._targets)
        self._layouts = _make_layouts(self._targets, ragged)
        self._prefixes = {name: "" if name == "image" else f"{name}_" for name in groups}
        prefixed = [prefix + name for prefix in self._prefixes.values() if prefix for name in targets]
        self._added = ["size", *[f"{prefix}geometry" for prefix in self._prefixes.values()], *prefixed]
        check_names("some of `targets`", targets, *self._prefixes, *self._added)
        several_times = [name for name, times in Counter([*self._prefixes, *self._added]).items() if times > 1]
        if several_times:
            raise ValueError(
                f"with these `views` and `targets`, two fields of a batch would be called {several_times[0]!r}: rename "
                "the view or the target"
            )
        self._options = options
        self._several = several
        self._tensors = output == "torch"
        self._others = {"image", "path", "index", *targets, *(others or ())}
        self._seen: dict[str, object] = {}

    def check(self, columns: Mapping[str, list[Any]]) -> None:
        index = columns["index"][0]
        check_names(f"with `targets`, some fields of sample {index}", columns, *self._added)
        for name in self.names:
            if name not in columns:
                own = tuple(it for it in columns if it not in {"path", "index"} and columns[it][0] is not None)
                accepted = f"a sample with the field {name!r}, as `targets` says"
                remedy = f"Make samples dicts or other records: {{'image': ..., {name!r}: ...}}."
                refuse(TypeError, f"source[{index}]", accepted, own, remedy)
        for name in columns.keys() - self._others:
            for place, value in zip(columns["index"], columns[name], strict=True):
                array = to_array(value)
                if isinstance(value, list | tuple | Mapping) or (array is not None and array.ndim):
                    accepted = "a single value in a field that `targets` does not mention"
                    remedy = (
                        f"Say there what it is, such as {name!r}: Boxes(), or Values() for other numbers; or leave it "
                        "out of the samples."
                    )
                    refuse(TypeError, f"source[{place}].{name}", accepted, value, remedy)

    def read(
        self,
        columns: Mapping[str, list[Any]],
        groups: Mapping[str, _Views],
        images: LoadedViews,
        num_threads: int,
    ) -> tuple[dict[str, Any], dict[int, str]]:
        """Return the fields that are added to images, and why some cannot be read.

        Ragged fields are arrays of objects: the rows of each sample. Samples that failed have any values.
        """
        fields: dict[str, Any] = {"size": np.array(images.sizes, np.int64)}
        reasons: dict[int, str] = {}
        for group, views in groups.items():
            read = [self._read_view(columns, rule, places, images, reasons) for rule, places in views]
            for name, first in read[0].items():
                own = np.stack([it[name] for it in read], 1) if self._several else first
                fields[self._prefixes[group] + name] = own
        for name in self._masks:
            arrays, failed = self._read_masks(name, columns[name], groups.values(), images, num_threads)
            reasons |= {place: f"`{name}`: {reason}" for place, reason in failed.items()}
            for group, array in zip(groups, arrays, strict=True):
                fields[self._prefixes[group] + name] = array.swapaxes(0, 1) if self._several else array[0]
        return fields, reasons

    def _read_view(
        self,
        columns: Mapping[str, list[Any]],
        rule: GeometryRule,
        places: Sequence[Place],
        images: LoadedViews,
        reasons: dict[int, str],
    ) -> dict[str, Any]:
        fields = {name: np.full(len(places), None, object) for name in (*self._targets, "geometry")}
        for number, (place, size) in enumerate(zip(places, images.sizes, strict=True)):
            fields["geometry"][number] = geometry = rule.geometry(place, size)
            if number in images.failures:
                continue
            try:
                for name, rows in self._read_one(columns, number, geometry, place):
                    fields[name][number] = rows
            except (TypeError, ValueError) as error:
                reasons[number] = str(error)
        return fields

    def _read_masks(
        self, name: str, masks: list[Any], groups: Iterable[_Views], images: LoadedViews, num_threads: int
    ) -> tuple[list[Any], dict[int, str]]:
        mask = self._masks[name]
        views = [(own[0][0].size, [places for _, places in own]) for own in groups]
        mark = object()
        # Several threads read; one of them puts its mark there.
        is_first = mask.ignore_index == _WHITE and self._seen.setdefault(name, mark) is mark
        if is_first:
            views.append(
                (_OVERVIEW, [[Place(0, (0, 0, *size), _OVERVIEW, (0, 0), flip=False) for size in images.sizes]])
            )
        faults = {place: fault for place, it in enumerate(masks) if (fault := _find_fault(it)) is not None}
        buffers, reasons = load_mask_views(
            [b"" if place in faults or place in images.failures else it for place, it in enumerate(masks)],
            views,
            sizes=images.sizes,
            dtype=mask.dtype,
            pad_value=mask.ignore_index,
            exif=self._options.exif,
            pages=mask.pages,
            num_threads=num_threads,
            decode_config=self._options.decode_config,
        )
        for place in reasons:
            if isinstance(masks[place], str | os.PathLike):
                reasons[place] = f"{shown_place(os.fsdecode(masks[place]))!r}: {reasons[place]}"
        arrays = list(map(to_numpy, buffers))
        if is_first:
            _tell_if_binary(name, arrays.pop())
        return arrays, reasons | faults

    def _read_one(
        self, columns: Mapping[str, list[Any]], place: int, geometry: Geometry, drawn: Place
    ) -> list[tuple[str, Any]]:
        kept: dict[str, Any] = {}
        found: list[tuple[str, Any]] = []
        for name, target in self._targets.items():
            try:
                rows = target._read(columns[name][place])  # noqa: SLF001 - of ours, as the following ones.
                if target.of is not None:
                    rows = _keep(rows, kept[target.of], target.of)
                if isinstance(target, Boxes):
                    rows, kept[name] = target._show(rows, geometry, drawn)  # noqa: SLF001
                else:
                    rows = target._move(rows, geometry, drawn)  # noqa: SLF001
            except (TypeError, ValueError) as error:
                raise type(error)(f"`{name}`: {error}") from None
            found.append((name, rows))
        return found

    def give(self, fields: Mapping[str, Any], place: int) -> dict[str, Any]:
        given = {name: fields[name][place] for name in self.names}
        return all_to_torch(given) if self._tensors else given

    def take(self, returned: Mapping[str, Any], image: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a sample's targets and what a transform added to them. Boxes are clipped to the returned image."""
        shape = tuple(getattr(image, "shape", ()))
        if len(shape) < _IMAGE:
            raise TypeError(
                f"`transform` has a parameter `targets`, so it must return an image with them, got {show(image)}"
            )
        height, width = shape[-2:] if self._tensors else shape[-3:-1]
        rows: dict[str, Any] = {}
        kept: dict[str, Any] = {}
        targets: dict[str, Target | Mask] = {**self._masks, **self._targets}
        for name, target in targets.items():
            if name not in returned:
                raise ValueError(
                    f"`transform` returned the targets {show(tuple(returned))}, without {name!r}: it must return all "
                    "that it gets, and may return more."
                )
            try:
                rows[name] = target._take(returned[name], (width, height))  # noqa: SLF001 - of ours, as the next ones.
                if isinstance(target, Mask):
                    continue
                if target.of is not None:
                    rows[name] = _keep(rows[name], kept[target.of], target.of)
                if isinstance(target, Boxes):
                    rows[name], kept[name] = target._clip(rows[name], (width, height))  # noqa: SLF001
            except (TypeError, ValueError) as error:
                raise type(error)(f"`{name}`, as `transform` returned it: {error}") from None
        return rows, {name: value for name, value in returned.items() if name not in rows}

    def gather(self, taken: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        columns = {name: [rows[name] for rows in taken] for name in self.names}
        return {
            name: to_objects(rows) if name in self._targets else gather(rows, name=name)
            for name, rows in columns.items()
        }

    def finish(self, fields: dict[str, Any]) -> dict[str, Any]:
        geometries: dict[str, Any] = {}
        moved: dict[str, Any] = {}
        for prefix in self._prefixes.values():
            geometries[f"{prefix}geometry"] = self._unless_single(self._by_view(fields[f"{prefix}geometry"]))
            for name in self._masks:
                masks = fields[prefix + name]
                moved[prefix + name] = views_first(masks) if self._several else masks
            for name in self._targets:
                laid_out = self._lay_out(name, prefix, self._by_view(fields[prefix + name]), fields)
                moved |= {field: self._unless_single(views) for field, views in laid_out.items()}
        return {**fields, **geometries, **(all_to_torch(moved) if self._tensors else moved)}

    def _by_view(self, rows: Any) -> list[list[Any]]:
        return [list(view) for view in (rows.T if self._several else [rows])]

    def _unless_single(self, views: Sequence[Any]) -> Any:
        return views if self._several else views[0]

    def _lay_out(
        self, name: str, prefix: str, views: list[list[Any]], taken: Mapping[str, Any]
    ) -> dict[str, Sequence[Any]]:
        target, layout, field = self._targets[name], self._layouts[name], prefix + name
        if layout != "pad":
            return {field: [lay_out(field, rows, layout, taken)[field] for rows in views]}
        # All views have one length.
        rows = [each for view in views for each in view]
        padded = lay_out(field, rows, layout, taken, pad_value=target.pad_value, dtype=target.dtype)
        return {each: it.reshape(len(views), len(views[0]), *it.shape[1:]) for each, it in padded.items()}


_IMAGE = 3


def views_first(array: Any) -> Any:
    return np.ascontiguousarray(array.swapaxes(0, 1))


def _tell_if_binary(name: str, ids: Any) -> None:
    """Warn if masks seem to be pictures of an object, white on black, in which losses would ignore the object."""
    if set(np.unique(ids).tolist()) == {0, _WHITE}:
        _LOG.warning(
            "All masks of a batch, in the field %r, consist of 0 and 255, and 255 is `ignore_index`, so losses leave "
            "these pixels out. If they are an object, pass Mask(ignore_index=254), say, and replace 255 in a "
            "`batch_transform`",
            name,
        )


def _find_fault(mask: Any) -> str | None:
    try:
        array = to_array(mask)
    except TypeError as error:  # PyTorch's, of a sparse tensor.
        return f"it must be a file or an array (H, W) of ints: {error}"
    if array is None:
        fault = find_fault_of_file("mask", mask, files=True)
        convertible = isinstance(mask, list) or hasattr(mask, "__array_interface__")  # Pillow's images have it.
        remedy = "; numpy.asarray makes an array of it" if convertible else ""
        return fault and f"it must be a file or an array (H, W) of ints, got {show(mask)}{remedy}"
    if array.ndim != 2 or array.dtype.kind not in "bui" or not array.size:  # noqa: PLR2004 - sides.
        return f"it must be a file or an array (H, W) of ints, got {array.dtype} {array.shape}"
    return None


def _make_layouts(targets: Mapping[str, Target], ragged: Ragged) -> dict[str, RaggedLayout]:
    accepted = get_args(RaggedLayout)
    if isinstance(ragged, Mapping):
        layouts: dict[str, RaggedLayout] = {**dict.fromkeys(targets, "list"), **ragged}
        for name, layout in ragged.items():
            if name not in targets:
                refuse(ValueError, "ragged", f"layouts of fields in `targets`: {', '.join(targets)}", name)
            check_choice(f"ragged[{name!r}]", layout, accepted if targets[name].can_be_array else ("list",))
        return layouts
    check_choice("ragged", ragged, accepted)
    return {name: ragged if target.can_be_array else "list" for name, target in targets.items()}


def _keep(rows: Any, kept: Any, of: str) -> Any:
    if len(rows) != len(kept):
        raise ValueError(f"it has {len(rows)} elements, and `{of}` has {len(kept)} boxes: it must have one for each")
    return [row for row, stays in zip(rows, kept, strict=True) if stays] if isinstance(rows, list) else rows[kept]
