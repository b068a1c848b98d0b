"""Iteration over the values of a mapping, in the order of its keys or of a sampler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl._check import check_iterable, refuse, show
from spdl.dataloader._one_pass import is_own_iterator, refuse_second_pass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["MapIterator"]

K_contra = TypeVar("K_contra", contravariant=True)
V_co = TypeVar("V_co", covariant=True)
K = TypeVar("K")
V = TypeVar("V")


class _Dataset(Protocol[K_contra, V_co]):
    def __getitem__(self, key: K_contra, /) -> V_co: ...


class MapIterator(Generic[K, V]):
    """An iterable over the values of a mapping, or the items of a map-style dataset.

    Values are looked up one after the other, in the thread that iterates the source. If that takes long, iterate over
    the keys instead and look them up in a stage: ``DataLoader(sampler, preprocessor=dataset.__getitem__)``.

    Args:
        mapping: A `collections.abc.Mapping`, or any object with ``__getitem__``, such as a list or a torch ``Dataset``.
        sampler: An iterable of keys. None takes the keys of a mapping, and ``range(len(mapping))`` for any other
            object, which must then have a length. A generator, or another object that is its own iterator, can be
            iterated only
            once: the second pass raises RuntimeError.

    Raises:
        TypeError: If `mapping` has no ``__getitem__``, or `sampler` cannot be iterated.

    Example:
        >>> from spdl.dataloader import MapIterator
        >>> list(MapIterator({"a": 1, "b": 2}, sampler=["b", "a", "b"]))
        [2, 1, 2]
    """

    def __init__(self, mapping: _Dataset[K, V], sampler: Iterable[K] | None = None) -> None:
        kind = type(mapping)
        if not hasattr(kind, "__getitem__"):
            refuse(TypeError, "mapping", "an object with `__getitem__`", mapping)
        if sampler is None and not (isinstance(mapping, Mapping) or hasattr(kind, "__len__")):
            refuse(TypeError, "mapping", "a mapping or have a length if there is no `sampler`", mapping)
        if sampler is not None:
            check_iterable("sampler", sampler, "an iterable of keys or None")
        self._mapping = mapping
        self._sampler = sampler
        self._used = False

    def _keys(self) -> Iterable[K]:
        if self._sampler is not None:
            return self._sampler
        if isinstance(self._mapping, Mapping):
            return self._mapping
        return range(len(self._mapping))  # type: ignore[arg-type, return-value] # It is a sequence.

    def __iter__(self) -> Iterator[V]:
        if self._used and is_own_iterator(self._sampler):
            refuse_second_pass("MapIterator", "sampler", self._sampler)
        self._used = True
        look_up = self._mapping.__getitem__
        for key in self._keys():
            try:
                value = look_up(key)
            except StopIteration as error:
                raise RuntimeError(
                    f"`mapping` raised StopIteration for the key {show(key)}, which would end the pass early and in "
                    "silence. Raise KeyError, IndexError or another exception."
                ) from error
            yield value

    def __len__(self) -> int:
        """Return the length of the sampler, or without one that of the mapping.

        Raises:
            TypeError: If it has no length.
        """
        return len(self._keys())  # type: ignore[arg-type]
