"""The memory holds what was used last, and never more bytes than it may."""

from __future__ import annotations

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from spdl.store._cache.memory_cache import MemoryCache


@given(steps=st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 40)), max_size=60), most=st.integers(0, 100))
def test_it_is_the_model(steps: list[tuple[str, int]], most: int) -> None:
    cache, model = MemoryCache(most), OrderedDict[str, bytes]()
    for key, size in steps:
        found = cache.get(key)
        assert (None if found is None else bytes(found)) == model.get(key)
        if key in model:
            model.move_to_end(key)
        else:
            cache.put(key, memoryview(bytes(size)))
            if size <= most:
                model[key] = bytes(size)
            while sum(map(len, model.values())) > most:
                model.popitem(last=False)
        assert cache.bytes == sum(map(len, model.values())) <= most
