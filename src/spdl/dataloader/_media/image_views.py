"""The argument for several views of each image, as self-supervised training takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from spdl._check import positive, refuse
from spdl.dataloader._media.image_augment import ImageAugment
from spdl.dataloader._media.sample_fields import check_names

Views: TypeAlias = int | Sequence[ImageAugment] | Mapping[str, Sequence[ImageAugment]] | None
"""How many views each image has, how each is varied, or both by the name of their field."""

_IMAGE = "image"


def parse_views(views: Views, augment: ImageAugment | None) -> dict[str, list[ImageAugment]]:
    """Return the views of each field.

    Args:
        views: The loader's argument, not None.
        augment: How the loader varies images; None does not.

    Raises:
        TypeError, ValueError: If an argument is wrong, or one contradicts the other.
    """
    if isinstance(views, int) and not isinstance(views, bool):
        if augment is None:
            accepted = "'train' or an ImageAugment with a number of `views`"
            refuse(ValueError, "augment", accepted, "eval", "Without it, all views would be the same.")
        return {_IMAGE: _check_group("augment", [augment] * positive("views", views))}
    accepted = 'an int, a sequence of ImageAugment, or such sequences by name: {"image": [...], "local": [...]}'
    groups: Any = views if isinstance(views, Mapping) else {_IMAGE: views}
    if _IMAGE not in groups:
        refuse(
            ValueError, "views", "a mapping with the key 'image', the field that a batch unpacks first", list(groups)
        )
    parsed = {}
    for name, group in groups.items():
        named = isinstance(name, str) and name.isidentifier()
        if not (named and isinstance(group, Sequence) and group and all(isinstance(it, ImageAugment) for it in group)):
            refuse(TypeError, "views", accepted, views)
        parsed[name] = _check_group(f"views[{name!r}]" if isinstance(views, Mapping) else "views", group)
    if augment is not None:
        refuse(ValueError, "augment", "left out with such `views`", augment, "Each of them is an ImageAugment.")
    check_names("some `views`", parsed, "label", "index", "path")
    return parsed


def _check_group(argument: str, group: Sequence[ImageAugment]) -> list[ImageAugment]:
    for augment in group:
        if augment.mixes:
            remedy = "Mix the images of a whole batch in `batch_transform`."
            refuse(ValueError, argument, "without `mixup` and `cutmix`", augment, remedy)
        if augment.size != group[0].size:
            remedy = 'Give those of another size a name of their own: views={"image": [...], "local": [...]}.'
            refuse(ValueError, argument, "views of one size", [it.size for it in group], remedy)
    return list(group)
