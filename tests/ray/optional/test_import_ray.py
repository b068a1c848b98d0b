"""Without Ray, everything that needs none works, and the rest says what to install."""

from __future__ import annotations

import subprocess
import sys
import textwrap

_PROGRAM = """
    import sys
    sys.modules["ray"] = None  # As if it were not installed.
    from spdl.pipeline import PipelineBuilder
    from spdl.ray import LeaseTable, run_on_ray
    print(LeaseTable(9, lease=4).grant("a"))
    try:
        run_on_ray(PipelineBuilder().add_source([1]).add_sink().get_config(), num_actors=1)
    except ImportError as error:
        print(error)
"""


def test_a_missing_ray_is_named_with_the_command_that_installs_it() -> None:
    program = textwrap.dedent(_PROGRAM)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [
        "(0, 4)",
        "spdl.ray needs Ray, and 'ray' is not installed: pip install 'spdl-turbo[ray]'",
    ]


def test_nothing_else_imports_ray() -> None:
    program = "import sys, spdl.ray, spdl.dataloader, spdl.observe, spdl.tune; print('ray' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
