from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline._engine.groups import LISTED, Group
from spdl.pipeline._engine.lineage import Lineage
from spdl.pipeline._tracing.origins import origins


def test_a_source_item_is_its_own_origin() -> None:
    assert origins(7) == (7,)


def test_a_batch_comes_from_its_items_in_order() -> None:
    lineage = Lineage()
    assert origins(lineage.gather([3, 1, 2])) == (3, 1, 2)
    assert origins(lineage.gather([])) == ()


def test_a_result_of_a_generator_comes_from_the_item_of_the_generator() -> None:
    lineage = Lineage()
    results = lineage.expand(lineage.admit(0))
    first, second = results.next_result(), results.next_result()
    assert first is not None
    assert second is not None
    assert origins(results) == origins(first) == origins(second) == (0,)
    assert origins(lineage.gather([first, 5, second])) == (0, 5)


def test_the_first_thousand_are_told() -> None:
    lineage = Lineage()
    gathering = lineage.begin_gathering()
    for _ in range(3 * LISTED):
        gathering.parents.append(lineage.admit(0))
        if gathering.is_long():
            lineage.pack(gathering)
    found = origins(gathering)
    assert found == tuple(range(LISTED))


@given(st.recursive(st.integers(0, 20), lambda inner: st.lists(inner, max_size=4), max_leaves=30))
def test_batches_of_batches(nested: object) -> None:
    def made(part: object) -> int | Group:
        return part if isinstance(part, int) else Group([made(each) for each in part], 1)  # type: ignore[attr-defined]

    def leaves(part: object) -> list[int]:
        return [part] if isinstance(part, int) else [leaf for each in part for leaf in leaves(each)]  # type: ignore[attr-defined]

    assert origins(made(nested)) == tuple(dict.fromkeys(leaves(nested)))
