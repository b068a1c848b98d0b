"""Write the table of kinds of pictures into docs/images.md, from pictures that it draws.

Run it as `.venv/bin/python -m scripts.picture_kinds_page`. Drawing HEIC takes an ffmpeg command with x265.
"""

from pathlib import Path

from scripts.sections import replace_section
from tests.io.picture_kinds import KINDS, table, verdict

PAGE = Path(__file__).parent.parent / "docs" / "images.md"
LABEL = "scripts/picture_kinds_page.py"

if __name__ == "__main__":
    rows = table([(kind, *verdict(kind, seed=0)) for kind in KINDS])
    PAGE.write_text(replace_section(PAGE.read_text(encoding="utf-8"), LABEL, rows), encoding="utf-8")
