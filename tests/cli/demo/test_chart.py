from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("matplotlib", reason="drawing the chart needs matplotlib")


def test_png_shows_bars(reported: Path) -> None:
    with Image.open(reported / "report" / "report.png") as image:
        assert image.format == "PNG"
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3)
    ours = (pixels == (0x0B, 0x7A, 0x5C)).all(axis=1).mean()
    assert 0.01 < ours < 0.5
    assert (pixels == 255).all(axis=1).mean() > 0.4
