"""Run at the start of every interpreter that finds this on its path, and make it import a copy of the package.

An editable install puts its own finder ahead of the path. The standard finders are classes, and this one is not.
"""

import sys

sys.meta_path[:] = [finder for finder in sys.meta_path if isinstance(finder, type)]
