"""Each row of the page's table of kinds of pictures is what drawn pictures of the kind give."""

from pathlib import Path

import pytest
from tests.io.picture_kinds import KINDS, Kind, table, verdict

PAGE = Path(__file__).parents[3] / "docs" / "images.md"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.label)
def test_pictures_of_the_kind_give_what_the_page_says(kind: Kind) -> None:
    text = PAGE.read_text(encoding="utf-8")
    verdicts = {verdict(kind, seed) for seed in range(3)}
    assert len(verdicts) == 1
    row = table([(kind, *verdicts.pop())]).splitlines()[-1]
    assert row in text.splitlines(), "run `python -m scripts.picture_kinds_page`"
