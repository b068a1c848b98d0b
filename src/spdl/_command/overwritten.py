"""Stands in for the ``spdl`` command after the reference's distributions have overwritten it.

Their ``spdl`` script calls ``spdl.__main__.main``. Installed as the package ``spdl/__main__``, which Python prefers to
their module ``spdl/__main__.py``, this file gets that call. If nothing is overwritten, ``spdl/__init__.py`` puts a
folder with our own ``__main__.py`` ahead of it, since Python does not run a package of that name.
"""

import sys


def main() -> int:
    """Print what has been overwritten and how to repair it.

    Returns:
        The exit status of the command, if it is intact after all.
    """
    try:
        from spdl.cli import main as command  # noqa: PLC0415 - this import is what fails.
    except ImportError as error:
        sys.exit(f"spdl: {error}")
    return command()
