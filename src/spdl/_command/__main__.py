"""Runs the command when it is called as ``python -m spdl``."""

import sys

from spdl.cli import main

sys.exit(main())
