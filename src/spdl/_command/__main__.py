"""Runs the ``spdl`` command for ``python -m spdl``."""

import sys

from spdl.cli import main

sys.exit(main())
