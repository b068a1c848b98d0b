"""A pipeline with a region, to be killed: `python _region_kills_driver.py POLICY MOMENT PROCESSES`.

It prints a line for each item: its number, and 1 if it is whole. It ends only if it is killed.
"""

from __future__ import annotations

import sys

from _region_kills_work import MOMENTS, Numbers, Policy, build, is_whole


def drive(policy: Policy, name: str, processes: int) -> None:
    """Read the pipeline, whose source waits when it has given the items before the kill."""
    moment = MOMENTS[name]
    kept = []
    with build(Numbers(moment), policy, processes).auto_stop() as pipeline:
        for item in pipeline:
            print(item[0], int(is_whole(item)), flush=True)
            if moment.kept:
                kept.append(item)


if __name__ == "__main__":
    drive("rerun" if sys.argv[1] == "rerun" else "fail", sys.argv[2], int(sys.argv[3]))
