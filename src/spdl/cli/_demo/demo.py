"""`spdl demo`: run the benchmark on photos that it fetches itself."""

from __future__ import annotations

from argparse import Namespace

from spdl.cli._common.errors import FAILED, CommandError
from spdl.cli._common.json_file import console_beside
from spdl.cli._demo.bench_images import bench_images


def demo(options: Namespace) -> int:
    """Make the folder of photos if it does not exist yet, and run `spdl bench images` on it.

    Raises:
        CommandError: Pillow is missing, the photos cannot be fetched, or `bench_images` raises it.
    """
    try:
        from spdl.cli._demo.photos import demo_photos  # noqa: PLC0415
    except ImportError:
        raise CommandError(
            "the demo needs Pillow to cut its photos: pip install 'spdl-turbo[demo]'.", exit_status=FAILED
        ) from None
    return bench_images(Namespace(**{**vars(options), "folder": demo_photos(console_beside(options.json))}))
