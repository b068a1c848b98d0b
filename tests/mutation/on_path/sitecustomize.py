"""Runs at the start of every interpreter that finds it on its path: has it import a copy of the package.

An editable install puts a finder of its own before the path; the standard finders are classes, and it is not.
"""

import sys

sys.meta_path[:] = [finder for finder in sys.meta_path if isinstance(finder, type)]
