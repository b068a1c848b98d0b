"""The page on migrating from DataLoader shows the recorded results, and computes its statements from them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.examples.scripts import load_script

pytest.importorskip("torch")

migration_page = load_script("migration_page")


@pytest.fixture
def record() -> Any:
    """Return a record with distinct figures: images per second = 1000 * loader + 10 * batch size + workers."""
    rows = [
        {
            "loader": loader,
            "batch_size": batch_size,
            "num_workers": workers,
            "images_per_second": 1000.0 * (place + 1) + 10 * (batch_size or 0) + workers,
        }
        for place, loader in enumerate((migration_page.TORCH, migration_page.PILLOW, migration_page.FRAMES))
        for batch_size in (None, 32, 64)
        for workers in (1, 2)
    ]
    origin = {"cores": 2.0, "cpu": "some processor", "date": "2026-01-02T03:04:05", "commit": "abc"}
    return {"quick": False, "rows": rows, "provenance": origin}


def test_page_shows_what_was_recorded() -> None:
    text = migration_page.PAGE.read_text(encoding="utf-8")
    recorded = migration_page.recorded()
    assert migration_page.with_sections(text, recorded) == text, "run scripts/migration_page.py"
    if recorded is not None:
        assert all(file.exists() for file in migration_page.drawn(list(migration_page.STEPS)))


def test_each_step_compares_its_loaders_at_their_best(record: Any) -> None:
    text = migration_page.with_sections(migration_page.PAGE.read_text(encoding="utf-8"), record)
    assert "| single images | 1,002 images/s | 2,002 images/s | 2.00 times |" in text
    assert "| batches of 64 | 1,642 images/s | 2,642 images/s | 1.61 times |" in text
    assert "| batches of 64 | 1,642 images/s | 2,642 images/s | 3,642 images/s | 2.22 times |" in text
    assert migration_page.ABSENT not in text
    assert text.count("commit abc") == len(migration_page.STEPS)


def test_each_step_draws_its_batch_sizes(record: Any) -> None:
    titles = {step: [panel.title for panel in migration_page.panels(step, record)] for step in migration_page.STEPS}
    assert titles == {
        "single": ["single images"],
        "batches": ["batches of 32"],
        "sizes": ["batches of 32", "batches of 64"],
        "frames": ["batches of 32", "batches of 64"],
    }
    (panel,) = migration_page.panels("single", record)
    assert {name: line.y for name, line in panel.lines.items()} == {
        migration_page.TORCH: [1001.0, 1002.0],
        migration_page.PILLOW: [2001.0, 2002.0],
    }


def test_without_a_run_the_page_says_so() -> None:
    text = migration_page.with_sections(migration_page.PAGE.read_text(encoding="utf-8"), None)
    assert text.count(migration_page.ABSENT) == len(migration_page.STEPS)


def test_quick_runs_and_pages_without_marks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "migration.json").write_text(json.dumps({"quick": True}))
    monkeypatch.setattr(migration_page, "RESULTS", tmp_path / "migration.json")
    with pytest.raises(SystemExit, match="is of a quick run"):
        migration_page.recorded()
    with pytest.raises(SystemExit, match="it holds them 0 times"):
        migration_page.with_sections("# A page\n", None)
