"""Wrappers of a dataset or a loader: iteration over a mapping's values, and a loader that repeats its batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from spdl._check import check_iterable, refuse, refuse_set, show
from spdl.dataloader._dataloader import is_own_iterator, refuse_second_pass
from spdl.pipeline import cache_iterator
from spdl.pipeline._state.passes import has_state, how_to_seek, knows_states, offers

T = TypeVar("T")


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

    A pipeline or loader over it resumes as it would over the sampler: with the sampler's state, and where the sampler
    can begin at a position, without looking up what was received.

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
            refuse_set("sampler", sampler)
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
        # Some samplers take note of an iterator that is asked for.
        return self._look_up(iter(self._keys()))

    @property
    def iterate_from(self) -> Callable[[int], Iterator[V]]:
        """The method that begins the next pass at a position, without looking up what comes before.

        It is there unless the sampler has neither positions nor a state: such a one may yield another order in each
        pass, so its items say how far a pass has come.
        """
        keys: Any = self._keys()
        seeks = how_to_seek(keys) != "replay" or has_state(keys)
        if not seeks and self._sampler is not None:
            raise AttributeError(f"the sampler {type(keys).__name__} cannot begin at a position")
        return self._iterate_from

    @property
    def state_dict(self) -> Callable[[], dict[str, Any]]:
        """The sampler's method that returns its state, if it has one."""
        return self._of_sampler("state_dict")

    @property
    def load_state_dict(self) -> Callable[[dict[str, Any]], None]:
        """The sampler's method that takes a state back, if it has one."""
        return self._of_sampler("load_state_dict")

    @property
    def advance_state(self) -> Callable[..., dict[str, Any]]:
        """The sampler's method that says how far a consumer is, if it has one; see `spdl.source.EpochSampler`."""
        return self._of_sampler("advance_state")

    @property
    def next_state(self) -> Callable[[dict[str, Any]], dict[str, Any]]:
        """The sampler's method that says what follows a pass, if it has one; see `spdl.source.EpochSampler`."""
        if not knows_states(type(self._sampler), "next_state"):
            raise AttributeError(f"the sampler {type(self._sampler).__name__} does not define next_state()")
        return self._of_sampler("next_state")

    @property
    def merge_states(self) -> Callable[..., dict[str, Any]]:
        """The sampler's method that merges the states of ranks, if it has one; see `spdl.source.merge_states`."""
        return self._of_sampler("merge_states")

    def _of_sampler(self, name: str) -> Callable[..., Any]:
        # One item comes for each key, so the sampler's state for its keys is also the state for the items.
        if not (has_state(self._sampler) and offers(self._sampler, name)):
            raise AttributeError(f"the sampler {type(self._sampler).__name__} has no {name}()")
        found: Callable[..., Any] = getattr(self._sampler, name)
        return found

    def _iterate_from(self, position: int) -> Iterator[V]:
        keys: Any = self._keys()
        how = how_to_seek(keys)
        if how == "iterate_from":
            rest = iter(keys.iterate_from(position))
        elif how == "index":
            rest = map(keys.__getitem__, range(position, len(keys)))
        else:
            rest = islice(iter(keys), position, None)
        return self._look_up(rest)

    def _look_up(self, keys: Iterator[K]) -> Iterator[V]:
        if self._used and is_own_iterator(self._sampler):
            refuse_second_pass("MapIterator", "sampler", self._sampler)
        self._used = True
        look_up = self._mapping.__getitem__
        for key in keys:
            try:
                value = look_up(key)
            except StopIteration as error:
                raise RuntimeError(
                    f"`mapping` raised StopIteration for the key {show(key)}, which would end the pass early and in "
                    "silence. Raise KeyError, IndexError or another exception."
                ) from error
            yield value

    def __len__(self) -> int:
        """Return the length of the sampler, or without a sampler the length of the mapping.

        Raises:
            TypeError: If it has no length.
        """
        return len(self._keys())  # type: ignore[arg-type]


class CacheDataLoader(Generic[T]):
    """A wrapper of a loader that soon repeats the loader's first batches, which takes no time.

    If a training loop runs no faster with it, the loop does not wait for its data. Otherwise the difference is the most
    that a faster loader could gain.

    Args:
        dl: The loader, or any iterable.
        num_caches: How many batches to cache, at least 1. They stay in memory, on the device if they are there.
        return_caches_after: How many of the loader's batches to yield before the cached ones repeat, at least
            ``num_caches``.
        stop_after: How many batches an iteration yields, at least ``return_caches_after``; None never stops. If
            the loader ends sooner, the cached batches repeat. If it is empty, the iteration ends at once.
        delete_src: Whether to drop the loader's iterator once it is no longer needed, so that its threads and buffers
            are freed and do not disturb the measurement. False keeps it until the iteration is over.

    Yields:
        The batches themselves, not copies.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> from spdl.dataloader import CacheDataLoader
        >>> list(CacheDataLoader(range(100), num_caches=2, return_caches_after=3, stop_after=6))
        [0, 1, 2, 0, 1, 0]
    """

    def __init__(
        self,
        dl: Iterable[T],
        num_caches: int,
        return_caches_after: int,
        stop_after: int | None = None,
        delete_src: bool = True,  # noqa: FBT001, FBT002 - the seeds' signature.
    ) -> None:
        check_iterable("dl", dl)
        self.dl = dl
        self._arguments: dict[str, Any] = {
            "num_caches": num_caches,
            "return_caches_after": return_caches_after,
            "stop_after": stop_after,
            "delete_src": delete_src,
        }
        # Raise for mistakes now instead of at the first iteration.
        cache_iterator((), **self._arguments)

    def __iter__(self) -> Iterator[T]:
        # Pass the iterator, which `delete_src` is about, not the loader, which this object holds anyway.
        return cache_iterator(iter(self.dl), **self._arguments)

    def __len__(self) -> int:
        """Return the loader's own length, so that a schedule of learning rates, say, is the same as without caches."""
        return len(self.dl)  # type: ignore[arg-type] # Without a length, this raises a TypeError that names its type.

    def __getattr__(self, name: str) -> Any:
        if name == "dl":
            # Not there yet, as during unpickling.
            raise AttributeError(name)
        return getattr(self.dl, name)
