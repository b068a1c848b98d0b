"""Sphinx: pages written by hand, and the reference, taken from the docstrings."""

import sys
from importlib.metadata import version as distribution_version
from pathlib import Path

# The pages on the example programs take their functions from them.
sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

project = "SPDL"
author = "the SPDL contributors"
project_copyright = "2026, the SPDL contributors"
release = version = distribution_version("spdl-turbo")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
nitpicky = False

html_theme = "furo"
html_title = f"SPDL {release}"
html_static_path = ["static"]
html_css_files = ["wrap.css"]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True, "show-inheritance": True}
# The programs need them, their descriptions do not.
autodoc_mock_imports = ["torch", "torchvision", "torchdata", "PIL"]
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False

myst_heading_anchors = 3
