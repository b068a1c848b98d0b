"""Configure Sphinx: hand-written pages, and a reference made from docstrings."""

import re
import sys
from importlib.metadata import version as distribution_version
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains.python import PyXRefRole
from sphinx.environment import BuildEnvironment
from sphinx.ext.autodoc.mock import mock

import spdl.dataloader

# The pages on the example programs document functions of those programs.
sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "SPDL"
author = "the SPDL contributors"
project_copyright = "2026, the SPDL contributors"
release = version = distribution_version("spdl-turbo")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "breakable_names",
    "linked_names",
    "reference_pages",
]
exclude_patterns = ["_build"]
templates_path = ["templates"]

html_theme = "furo"
html_title = f"SPDL {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["copy.js"]
html_copy_source = False

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
maximum_signature_line_length = 80
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True, "show-inheritance": True}
# The programs need these packages; their documentation does not.
autodoc_mock_imports = ["torch", "torchvision", "torchdata", "PIL"]
# Modules load some members at their first use; these must exist when the members
# are listed.
with mock(autodoc_mock_imports):
    for lazy in ("PyTorchDataLoader", "get_pytorch_dataloader"):
        getattr(spdl.dataloader, lazy)
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False

myst_heading_anchors = 3

# A reference without a target is an error. These names have no page on this site,
# and the build does not look them up on the network.
OTHERS = (
    r"abc|_?asyncio|collections|concurrent|contextlib|fractions|io|multiprocessing|os"
    r"|pathlib|random|socket|typing|numpy|np|builtins|torch|nn|jax|numba|_program"
    r"|spdl(\.\w+)*\._\w+"
)
TYPE_VARIABLES = r"K|V|P|P.args|P.kwargs|T|T_co|U|Source|Output|Item|Result"
ALIASES = (
    r"Annotations|BoxFormat|MaskDtype|Ragged|RaggedLayout|Target|Targets|Views"
    r"|Abstract(Async)?ContextManager|Agree|Arena|Array|ArrayInput|ArrayLike|ArrayTarget|AudioOnError|Augment|Backend"
    r"|BackgroundTaskFactory|BaseContext|Batch|Box|Buffer|Compression|Crop|Dtype|Executor|FilterDesc|Flip"
    r"|Counts|Ending|Fraction|FrameRate|Frames|Future|GpuFormat|Headers|IdDtype|Initializer|ImageInput|ImageTarget|Interpolation|Label|Layout|LoaderArguments|MaxFailures"
    r"|MainProcess|MaskInput|MediaTarget|MergeOp"
    r"|Mode|NDArray|Observables|OnError|OnFailure|OnTimeout|Op|OutputKind|OutputOrder|Pages|Path|Photos|PlanarFormat|ProcessPoolExecutor"
    r"|QueueClass|Range|Records?|ResumableLoader"
    r"|SampleType|Sampling|ScalarWriter|Seconds|Segmentation|StageArguments|StageConfig|Storage|SubprocessIterable|Subsampling|Table|TarInput"
    r"|TaskHookFactory|TaskRecord|Training|VideoOnError|_Dataset"
    r"|CachePath|Cost|DTypeLike|Integers|Nulls|OnTextError|Packing|Pad|Side|Split|Tokens|TooLong|Unit"
)
ARGUMENTS = r"[a-z_]\w*"  # Docstrings put arguments in the same quotes as names.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", rf"({OTHERS})\..*"),
    ("py:.*", rf"(\w+\.)*~?({TYPE_VARIABLES})"),
    ("py:.*", rf"({ALIASES})(\.\w+)?"),
    ("py:obj", rf"{ARGUMENTS}|[A-Z_]+|[\w/]+\.py"),
]


class _Name(PyXRefRole):
    """A name in single quotes in a docstring: of this package, or an argument."""

    def process_link(
        self,
        env: BuildEnvironment,
        refnode: nodes.Element,
        has_explicit_title: bool,  # noqa: FBT001 - Sphinx's signature.
        title: str,
        target: str,
    ) -> tuple[str, str]:
        title, target = super().process_link(
            env, refnode, has_explicit_title, title, target
        )
        refnode["reftype"] = "obj"
        # Classes and paths are looked up in all modules; a word that may be an
        # argument is looked up only in its own function.
        if not re.fullmatch(ARGUMENTS, target):
            refnode["refspecific"] = True
        return title, target


def setup(app: Sphinx) -> None:
    """Make single quotes in docstrings link to the names in them."""
    app.add_role_to_domain("py", "name", _Name())


default_role = "py:name"
