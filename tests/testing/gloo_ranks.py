"""One rank of `test_equal_steps_of_processes`, which imports PyTorch once for all that it does.

Usage: ``python gloo_ranks.py FOLDER RANK RANKS SHARDINGS``. It prints what each of its parts returns.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.testing.gloo_rank import load_parts
from tests.testing.gloo_stop_rank import agree_to_stop


def main() -> None:
    """Run all shardings of both kinds."""
    folder, rank, ranks, shardings = Path(sys.argv[1]), *map(int, sys.argv[2:])
    steps, replaced = load_parts(folder, rank, ranks, shardings)
    sys.stdout.write(json.dumps([steps, replaced, agree_to_stop(folder, rank, ranks, shardings)]))


if __name__ == "__main__":
    main()
