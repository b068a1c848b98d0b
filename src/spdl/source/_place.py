"""The places of files of records: paths, addresses, patterns and lists, and nothing outside of them."""

from __future__ import annotations

import errno
import itertools
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from spdl._check import check_instance, refuse, refuse_set, show
from spdl.io import FormatError
from spdl.io._shared import check_is_object, check_regular, describe, is_url
from spdl.source._prefetch import read_together

if TYPE_CHECKING:
    from spdl.store import Entry, Store

# Longer numbers are part of the name, as in a shell: none counts so far.
_NUMBERS = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})(?:\.\.(-?\d{1,18}))?")
_LETTERS = re.compile(r"([a-zA-Z])\.\.([a-zA-Z])(?:\.\.(-?\d{1,18}))?")
_MOST = 1_000_000
_DEEPEST = 100

_Part: TypeAlias = "str | _Range | _List"


def expand_braces(argument: str, pattern: str) -> list[str]:
    """Return the names that a pattern stands for, in its order.

    ``{0000..0099}`` counts, with as many digits as are written; ``{0..9..3}`` in steps; ``{a,b}`` lists. Braces may be
    within braces. Those around neither a list nor a range are part of the name, as in a shell.
    """
    if "{" not in pattern:
        return [pattern]
    braces, deepest = _find_braces(pattern)
    if deepest > _DEEPEST:
        refuse(ValueError, argument, f"a pattern of at most {_DEEPEST} braces within each other", pattern)
    parts = _read(pattern, 0, len(pattern), braces)
    # Before anything is written out, since that may take long.
    if _count(parts) > _MOST:
        refuse(ValueError, argument, f"a pattern of at most {_MOST} names", pattern)
    return list(_names(parts))


class _Range:
    """Numbers or letters that follow each other."""

    def __init__(self, numbers: range, width: int | None) -> None:
        self._numbers = numbers
        self._width = width  # None for letters.

    def __len__(self) -> int:
        return len(self._numbers)

    def names(self) -> Iterator[str]:
        if self._width is None:
            return map(chr, self._numbers)
        return (f"{number:0{self._width}}" for number in self._numbers)


class _List:
    def __init__(self, options: list[list[_Part]]) -> None:
        self._options = options

    def __len__(self) -> int:
        return min(_MOST + 1, sum(map(_count, self._options)))

    def names(self) -> Iterator[str]:
        return itertools.chain.from_iterable(map(_names, self._options))


def _count(parts: Sequence[_Part]) -> int:
    """Return how many names there are, or a million and more."""
    return min(_MOST + 1, math.prod(min(_MOST + 1, len(part)) for part in parts if not isinstance(part, str)))


def _names(parts: Sequence[_Part]) -> Iterator[str]:
    options = ([part] if isinstance(part, str) else part.names() for part in parts)
    return map("".join, itertools.product(*options))


def _find_braces(pattern: str) -> tuple[dict[int, tuple[int, list[int]]], int]:
    """Return where each brace is closed, with the commas that belong to it, and how many are within each other."""
    found: dict[int, tuple[int, list[int]]] = {}
    opened: list[tuple[int, list[int]]] = []
    heights = [0]  # Of what is closed within each brace that is open, the whole pattern first.
    for match in re.finditer(r"[{},]", pattern):
        place, sign = match.start(), match[0]
        if sign == "{":
            opened.append((place, []))
            heights.append(0)
        elif opened and sign == ",":
            opened[-1][1].append(place)
        elif opened:
            begin, commas = opened.pop()
            found[begin] = place, commas
            height = heights.pop() + 1
            heights[-1] = max(heights[-1], height)
    return found, max(heights)


def _read(pattern: str, begin: int, end: int, braces: dict[int, tuple[int, list[int]]]) -> list[_Part]:
    parts: list[_Part] = []
    done = place = begin
    while (place := pattern.find("{", place, end)) >= 0:
        closed, commas = braces.get(place, (-1, []))
        part: _Part | None = None
        if commas:
            cuts = [place, *commas, closed]
            part = _List([_read(pattern, first + 1, last, braces) for first, last in itertools.pairwise(cuts)])
        elif closed >= 0:
            part = _range(pattern[place + 1 : closed])
        if part is None:  # It is part of the name, but not what is within it.
            place += 1
            continue
        parts += [pattern[done:place], part]
        done = place = closed + 1
    parts.append(pattern[done:end])
    return parts


def _range(inside: str) -> _Range | None:
    if match := _NUMBERS.fullmatch(inside):
        # As many digits as the longer of the two has, if one begins with a zero.
        padded = any(re.match(r"-?0\d", text) for text in match.group(1, 2))
        width = max(map(len, match.group(1, 2))) if padded else 0
        return _Range(_steps(int(match[1]), int(match[2]), match[3]), width)
    if match := _LETTERS.fullmatch(inside):
        return _Range(_steps(ord(match[1]), ord(match[2]), match[3]), None)
    return None


def _steps(begin: int, end: int, step: str | None) -> range:
    by = abs(int(step or 1)) or 1
    return range(begin, end + 1, by) if begin <= end else range(begin, end - 1, -by)


Stores: TypeAlias = "dict[str, Store]"
"""Stores by their URLs."""

_ACCEPTED = "a path or URL, a pattern such as 'train-{0000..0099}.tar', or a list of these"


class Place(NamedTuple):
    store: Store | None
    """None for a file."""
    path: str
    pattern: str = ""
    """The user's name for it: a pattern, or its path."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def read(self) -> bytes:
        if self.store is not None:
            return bytes(self.store.get(self.path))
        check_regular(self.path)
        with open(self.path, "rb") as file:  # noqa: PTH123 - half the time of Path.open.
            return file.read()

    def read_json(self) -> Any:
        try:
            return json.loads(self.read())
        except FormatError:
            raise
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{self} is not JSON: {error}", path=self.path) from error

    def describe(self) -> Entry:
        """Return the size, and an etag if there is one: a text that changes with the content."""
        from spdl.store import LocalStore  # noqa: PLC0415 - only for those who need it.

        if self.store is not None:
            return describe(self.store, self.path)
        folder, name = os.path.split(os.path.abspath(self.path))  # noqa: PTH100
        return describe(LocalStore(folder), name)

    def below(self, name: str, stores: Stores) -> Place:
        """Return the place of a file that this one names, which is a list or an index from an unknown author.

        A name is a path from its folder on, and leads below that. A URL counts only in a list that was opened by a URL
        of the same origin. FormatError for another name.
        """
        if "://" not in name:
            folder, slash, _ = self.path.rpartition("/")
            place, steps = Place(self.store, f"{folder}{slash}{name}"), name
        else:
            place, steps = self, ""
            origin = _origin(name)
            # A URL of that server may still be invalid.
            with suppress(ValueError):
                if origin is not None and origin == _origin(self.pattern):
                    place = place_of(name, None, stores)
                    steps = place.path
        if "\0" in steps or "\\" in steps or any(step in ("", ".", "..") for step in steps.split("/")):
            raise FormatError(
                f"{self}: it names {show(name)}. A list may only name files below its folder: a path without '..', "
                "'.', an empty part, a backslash or a zero character; or a URL of the server that the list was opened "
                "from by its URL. To read other files, name them yourself",
                path=self.path,
            )
        return place

    def __str__(self) -> str:
        return self.path if self.store is None else f"{self.path} in {self.store!r}"


def _origin(url: str) -> tuple[str, str] | None:
    """Return the server or bucket of a URL; None for a file of this machine, and for what is no URL."""
    from spdl.store import split_url  # noqa: PLC0415 - only for those who have a URL.

    try:
        scheme, host = urlsplit(split_url(url)[0])[:2]
    except ValueError:
        return None
    return None if scheme == "file" else (scheme, host.lower())


def place_of(path: str, store: Store | None, stores: Stores) -> Place:
    """Return the place of a path in a store, or of a URL, whose store is in `stores` from then on."""
    if store is None and is_url(path):
        check_is_object(path)
    return _place_of(path, store, stores)


def listed_folder(path: str) -> Place:
    """Return the place of a folder whose files are going to be listed. StoreError if that cannot be done."""
    place = _place_of(path, None, {})
    if place.store is not None:
        from spdl.store import HTTPStore  # noqa: PLC0415 - only for those who have a URL.

        if isinstance(place.store, HTTPStore):
            place.store.list(f"{place.path}/".lstrip("/"))  # It says what to do instead.
    return place


def _place_of(path: str, store: Store | None, stores: Stores) -> Place:
    if store is not None or not is_url(path):
        return Place(store, path)
    from spdl.store import open_store, split_url  # noqa: PLC0415 - only for those who have a URL.

    root, below = split_url(path)
    if root.startswith("file:"):
        return Place(None, f"/{below}")
    if root not in stores:
        stores[root] = open_store(root)
    return Place(stores[root], below)


def find_places(argument: str, paths: Any, store: Store | None, usual: str = "") -> list[Place]:
    """Return the places that a user names, with the patterns written out. A folder is refused if `usual` says so."""
    _check_store(store)
    stores: Stores = {}
    named = expand_paths(argument, paths, store)
    places = [place_of(path, store, stores)._replace(pattern=pattern) for path, pattern in named]
    if usual and places[0].store is None:
        check_is_no_folder(argument, places[0].path, usual)
    return places


def find_folder(argument: str, folder: Any, store: Store | None) -> Place:
    _check_store(store)
    path, pattern = expand_paths(argument, [folder], store)[0]
    return _place_of(path, store, {})._replace(pattern=pattern)


def _check_store(store: object) -> None:
    if store is not None:
        from spdl.store import Store as Protocol  # noqa: PLC0415 - only for those who have a store.

        check_instance("store", store, Protocol, "a store, such as spdl.store.LocalStore, or None")


def expand_paths(argument: str, paths: Any, store: Store | None = None) -> list[tuple[str, str]]:
    """Return the paths and URLs that a user names, with the patterns written out, each with what it was named by."""
    single = isinstance(paths, str | os.PathLike)
    if not single and (isinstance(paths, bytes) or not isinstance(paths, Iterable)):
        refuse(TypeError, argument, _ACCEPTED, paths)
    refuse_set(argument, paths)
    listed = [paths] if single else list(paths)
    for path in listed:
        if not isinstance(path, str | os.PathLike):
            refuse(TypeError, argument, _ACCEPTED, path)
        _check_is_no_glob(argument, os.fsdecode(path), store)
    patterns = [os.fsdecode(path) for path in listed]
    found = [(path, pattern) for pattern in patterns for path in expand_braces(argument, pattern)]
    if not found:
        refuse(ValueError, argument, "at least one path", paths)
    return found


def check_is_no_folder(argument: str, path: str, pattern: str) -> None:
    """Raise IsADirectoryError for a folder in the place of files with names of such a pattern."""
    if os.path.isdir(path):  # noqa: PTH112
        remedy = f"To read all in it, pass sorted(pathlib.Path({path!r}).glob({pattern!r}))."
        refuse(IsADirectoryError, argument, "files and not a folder", path, remedy)


def missing(called: str, places: Sequence[Place]) -> FileNotFoundError | None:
    """Return the error for some files, at least one of them missing, which says how many of a pattern there are.

    None if they are there, if that is unknown, or if there is only one, whose own error says as much.
    """
    try:
        there = read_together([partial(is_there, place) for place in places])
    except OSError:
        return None
    first = next((place for place, is_there in zip(places, there, strict=True) if not is_there), None)
    if first is None or len(places) == 1:
        return None
    # A plain list counts as a whole.
    patterns = {place.pattern for place in places if place.pattern not in ("", place.path)}
    of = [is_there for place, is_there in zip(places, there, strict=True) if place.pattern == first.pattern]
    whose = f"{called} of {show(first.pattern)}"
    if first.pattern not in patterns:
        of, whose = there, called
    relative = first.store is None and not os.path.isabs(first.path)  # noqa: PTH117
    folder = f" below {os.getcwd()}" if relative else ""  # noqa: PTH109
    where = folder if first.store is None else f" in {first.store!r}"
    text = f"Of the {len(of)} {whose}, {sum(of) or 'none'} can be found{where}. The first that is missing"
    return FileNotFoundError(errno.ENOENT, text, first.path)


def is_there(place: Place) -> bool:
    """OSError if the store cannot say it."""
    if place.store is None:
        return os.path.exists(place.path)  # noqa: PTH110 - half the time of Path.exists.
    try:
        place.describe()
    except FileNotFoundError:
        return False
    return True


def _check_is_no_glob(argument: str, path: str, store: Store | None) -> None:
    """Refuse a pattern with ``*``, unless a file has that name. An object of a store may have it, too."""
    if "*" in path and store is None and "://" not in path and not os.path.lexists(path):
        remedy = f"A `*` is not looked up: write the numbers out, or pass sorted(glob.glob({path!r}))."
        refuse(ValueError, argument, _ACCEPTED, path, remedy)
