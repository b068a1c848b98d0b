"""Samples that an archive holds as one file for each part, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl.io._common.format_error import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spdl._type_vars import T

__all__ = ["KEY", "group_samples", "is_metadata", "split_name", "twice"]

KEY = "__key__"


def group_samples(members: Iterable[tuple[str, T]]) -> Iterator[dict[str, Any]]:
    """Group the members of an archive into samples, by WebDataset's convention.

    The key of a member is its name up to the first dot after the last slash. The text after that dot, in lower case, is
    the name of the part. Consecutive members with the same key make one sample. Members whose base name has no dot, or
    begins with one, are left out, and so are those in a folder such as ``__meta__``, which tell of the archive itself.

    Args:
        members: Names and contents, as `iter_tarfile` yields them.

    Returns:
        An iterator over the samples: a dict of contents by the name of the part, with the key as ``"__key__"``.

    Raises:
        FormatError: While iterating, if a sample has a part twice.

    Example:
        >>> for sample in group_samples(iter_tarfile(archive)):
        ...     print(sample["__key__"], sorted(sample), bytes(sample["txt"]))
        a ['__key__', 'cls', 'txt'] b'1'
        b ['__key__', 'txt'] b'2'
    """
    sample: dict[str, Any] = {}
    for name, content in members:
        key, part = split_name(name)
        if part is None:
            continue
        if sample and sample[KEY] != key:
            yield sample
            sample = {}
        if not sample:
            sample[KEY] = key
        if part in sample:
            raise twice(key, part, name)
        sample[part] = content
    if sample:
        yield sample


def split_name(name: str) -> tuple[str, str | None]:
    """Return the key of a member and the name of its part, which is None if it belongs to no sample."""
    start = name.rfind("/") + 1
    dot = name.find(".", start)
    if dot <= start or (name.startswith("__") and is_metadata(name.encode("utf-8", "surrogateescape"))):
        return name, None
    return name[:dot], name[dot + 1 :].lower()


def is_metadata(name: bytes) -> bool:
    """Return whether a member lies in a folder whose name has two underscores on either side."""
    folder, slash, _ = name.partition(b"/")
    return bool(slash) and len(folder) >= len("____") and folder.startswith(b"__") and folder.endswith(b"__")


def twice(key: str, part: str, name: str) -> FormatError:
    """Return the error for a sample that has two parts of one name, or one by the name of the key."""
    return FormatError(f"the sample {key!r} has the part {part!r} twice, the second time as {name!r}")
