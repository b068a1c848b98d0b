"""Measure `spdl advise`: what it costs a job, whether its verdict is right, and whether the predicted gain comes.

Claims: it costs less than 3 % of a step of a millisecond, and less than 3 % of the CPU time of three jobs, besides a
part of a second in which the command itself starts; the verdict on these jobs is right 3 of 3. The gain that it
predicts for switching to spdl is compared with the gain of making the changes that it prints.

Run it as `python benchmarks/advise.py [--rounds N] [--json FILE [--add]]`. In each round every job runs alone, under
the command, and with its lines changed, in turns. The exit status says whether the claims hold.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from spdl.cli._common.measure import cpu_seconds
from spdl.cli._common.provenance import provenance

JOBS = Path(__file__).parents[1] / "tests" / "cli" / "advise" / "jobs"
VERDICTS = {"starved_by_decoding": "decoding", "starved_by_pickling": "pickling", "not_starved": "not starved"}
MOST_COST = 0.03
MOST_STEP_MICROSECONDS = 1000 * MOST_COST
STEPS = 20_000
# Nothing but the loader's own work, so that what is added shows.
EMPTY = f"""
import time
from torch.utils.data import DataLoader
batches = iter(DataLoader(range({STEPS}), batch_size=1))
began = time.process_time()
for _ in batches:
    pass
print(time.process_time() - began)
"""
ADVISE = (sys.executable, "-m", "spdl", "advise")

Times = dict[str, float]


def take(*command: str) -> Times:
    """Run a command, and return its time and the CPU time of all its processes."""
    began, cpu = perf_counter(), cpu_seconds()
    subprocess.run(command, check=True, capture_output=True)
    return {"seconds": perf_counter() - began, "cpu": cpu_seconds() - cpu}


def step_microseconds(*command: str) -> float:
    """Return the CPU time of a step that does nothing, with a loader that does next to nothing in the same process."""
    done = subprocess.run([*command, sys.executable, "-c", EMPTY], check=True, capture_output=True, text=True)
    return 1e6 * float(done.stdout) / STEPS


def changed(script: Path, figures: dict[str, Any], folder: Path) -> Path:
    """Write a copy of a script with the changes that the page prints."""
    lines = script.read_text().splitlines()
    for change in reversed(figures["loaders"][0]["changes"]):
        lines[change["line"] - 1 : change["last"]] = change["new"]
    copy = folder / script.name
    copy.write_text("\n".join(lines) + "\n")
    return copy


def run_round(script: Path, folder: Path) -> dict[str, Any]:
    """Run a job in all ways, and the import of PyTorch for the part of their times that is no loading."""
    file = folder / "figures.json"
    found: dict[str, Any] = {
        "imported": take(sys.executable, "-c", "import torch.utils.data"),
        "started": take(*ADVISE, "--", sys.executable, "-c", "import torch.utils.data"),
        "alone": take(sys.executable, str(script)),
        "advised": take(*ADVISE, "--json", str(file), "--", sys.executable, str(script)),
    }
    figures = json.loads(file.read_text())
    if figures["verdict"] != "not starved":
        found["changed"] = take(sys.executable, str(changed(script, figures, folder)))
    verdict = figures["loaders"][0]["verdict"]
    return found | {"verdict": figures["verdict"], "share": verdict["share"], "predicted_gain": verdict["gain"]}


def judge(rounds: list[dict[str, Any]]) -> dict[str, float]:
    """Return the cost and the gain of a job.

    Other work of the machine only adds to a time, so the least time of the rounds counts.
    """

    def least(which: str, figure: str) -> float:
        return float(min(it[which][figure] for it in rounds if which in it))

    def loading(which: str, figure: str, without: str = "imported") -> float:
        return least(which, figure) - least(without, figure)

    found = {
        "start_seconds": loading("started", "seconds"),
        "start_cpu": loading("started", "cpu"),
        "cost": loading("advised", "cpu", "started") / loading("alone", "cpu") - 1,
        "share": statistics.median(it["share"] for it in rounds),
        "predicted_gain": statistics.median(it["predicted_gain"] for it in rounds),
    }
    if any("changed" in it for it in rounds):
        found["gain"] = loading("alone", "seconds") / loading("changed", "seconds")
    return found


def main() -> int:
    """Run the rounds, print what comes of them and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="rounds (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument("--add", action="store_true", help="keep the rounds that the file has")
    options = parser.parse_args()
    os.environ.pop("SPDL_ADVISE", None)
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in VERDICTS}
    steps: list[float] = []
    if options.add and options.json.exists():
        known = json.loads(options.json.read_text())
        rounds, steps = known["rounds"], known["step_microseconds"]
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            steps.append(step_microseconds(*ADVISE, "--") - step_microseconds())
            for name, each in rounds.items():
                each.append(run_round(JOBS / f"{name}.py", Path(folder)))
                print(name, each[-1], flush=True)
    added = statistics.median(steps)
    held = {"step": added < MOST_STEP_MICROSECONDS}
    print(f"a step: {added:.3g} microseconds added{'' if held['step'] else ' MISSED'}")
    figures = {name: judge(each) for name, each in rounds.items()}
    for name, each in rounds.items():
        right = sum(it["verdict"] == VERDICTS[name] for it in each)
        held[name] = right == len(each) and figures[name]["cost"] < MOST_COST
        shown = ", ".join(f"{key} {value:.3g}" for key, value in figures[name].items())
        print(f"{name}: verdict right {right} of {len(each)}, {shown}{'' if held[name] else ' MISSED'}")
    if options.json:
        result = {
            "most_cost": MOST_COST,
            "held": held,
            "step_microseconds": steps,
            "rounds": rounds,
            "provenance": provenance(),
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
