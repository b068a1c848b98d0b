"""Measure `spdl advise`: what it costs a job, whether its verdict is right, and whether the predicted gain comes.

Claims: it costs less than 3 % of a step of a millisecond, and less than 3 % of the CPU time of three jobs, besides a
part of a second in which the command itself starts; the verdict on these jobs is right each time. What came of
`PyTorchDataLoader` when the command tried it is compared with the time of an epoch with and without the changed import.
Costs are those of measuring: nothing is tried in the runs that are timed.

Run it as `python benchmarks/advise.py [--rounds N] [--json FILE [--add]]`. In each round every job runs alone, twice
under the command, and alone again; then with its lines changed. The cost is the median of these pairs. The exit status
says whether the claims hold.
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

from spdl.cli._common.machine import cpu_seconds, provenance

JOBS = Path(__file__).parents[1] / "tests" / "cli" / "advise" / "jobs"
VERDICTS = {
    "starved_by_decoding": "CPU",
    "starved_by_pickling": "pickling",
    "starved_by_lock": "I/O",
    "not_starved": "slow consumer",
}
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
MEASURING = (*ADVISE, "--trial-seconds", "0")

Times = dict[str, float]


def take(*command: str) -> Times:
    """Run a command, and return the CPU time of all its processes, and the time between its first two lines.

    A job prints a line at the end of each epoch.
    """
    cpu = cpu_seconds()
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as process:
        assert process.stdout is not None
        at = [perf_counter() for _ in process.stdout]
    if process.returncode:
        raise SystemExit(f"{command} ended with status {process.returncode}")
    return {"cpu": cpu_seconds() - cpu, "epoch": at[1] - at[0] if len(at) > 1 else 0.0}


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


def run_start(folder: Path) -> dict[str, Times]:
    """Import PyTorch alone and under the command: the part of all times that is no loading."""
    importing = (sys.executable, "-c", "import torch.utils.data")
    return {
        "imported": take(*importing),
        "started": take(*MEASURING, "--json", str(folder / "none.json"), "--", *importing),
    }


def run_round(script: Path, folder: Path) -> dict[str, Any]:
    """Run a job in all ways."""
    file = folder / "figures.json"
    alone = (sys.executable, str(script))
    advised = (*MEASURING, "--json", str(file), "--", *alone)
    # In this order, a machine that becomes slower or faster favours neither.
    times = [take(*command) for command in (alone, advised, advised, alone)]
    found: dict[str, Any] = {"alone": [times[0], times[3]], "advised": times[1:3]}
    figures = json.loads(file.read_text())
    verdict = figures["loaders"][0]["verdict"]
    found |= {"verdict": figures["verdict"]} | {it: verdict[it] for it in ("share", "headspace", "headspace_range")}
    if figures["verdict"] != "slow consumer":
        found["changed"] = take(sys.executable, str(changed(script, figures, folder)))
        subprocess.run([*ADVISE, "--json", str(file), "--", *alone], check=True, capture_output=True)
        tried = json.loads(file.read_text())["loaders"][0]["verdict"]["tried"]
        found["tried_gain"] = next(way["gain"] for way in tried if way["what"] in ("thread", "process"))
    return found


def judge(rounds: list[dict[str, Any]], starts: list[dict[str, Times]]) -> dict[str, float]:
    """Return the cost and the gain of a job."""
    imported, started = (min(it[name]["cpu"] for it in starts) for name in ("imported", "started"))
    pairs = [pair for it in rounds for pair in zip(it["alone"], it["advised"], strict=True)]
    found = {
        "cost": statistics.median(
            (advised["cpu"] - started) / (alone["cpu"] - imported) - 1 for alone, advised in pairs
        ),
        "share": statistics.median(it["share"] for it in rounds),
        "headspace": statistics.median(it["headspace"] for it in rounds),
    }
    gains = [
        statistics.mean(each["epoch"] for each in it["alone"]) / it["changed"]["epoch"]
        for it in rounds
        if "changed" in it
    ]
    tried = [it["tried_gain"] for it in rounds if "tried_gain" in it]
    return found | ({"tried_gain": statistics.median(tried), "gain": statistics.median(gains)} if gains else {})


def main() -> int:
    """Run the rounds, print what comes of them and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="rounds (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument("--add", action="store_true", help="keep the rounds that the file has")
    options = parser.parse_args()
    os.environ.pop("SPDL_ADVISE", None)
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in VERDICTS}
    starts: list[dict[str, Times]] = []
    steps: list[float] = []
    if options.add and options.json.exists():
        known = json.loads(options.json.read_text())
        rounds, starts, steps = known["rounds"], known["starts"], known["step_microseconds"]
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            steps.append(step_microseconds(*MEASURING, "--") - step_microseconds())
            starts.append(run_start(Path(folder)))
            for name, each in rounds.items():
                each.append(run_round(JOBS / f"{name}.py", Path(folder)))
                print(name, each[-1], flush=True)
    added = statistics.median(steps)
    held = {"step": added < MOST_STEP_MICROSECONDS}
    print(f"a step: {added:.3g} microseconds added{'' if held['step'] else ' MISSED'}")
    start = min(it["started"]["cpu"] for it in starts) - min(it["imported"]["cpu"] for it in starts)
    print(f"the command: {start:.3g} seconds of CPU")
    figures = {name: judge(each, starts) for name, each in rounds.items()}
    for name, each in rounds.items():
        right = sum(it["verdict"] == VERDICTS[name] for it in each)
        held[name] = right == len(each) and figures[name]["cost"] < MOST_COST
        shown = ", ".join(f"{key} {value:.3g}" for key, value in figures[name].items())
        print(f"{name}: verdict right {right} of {len(each)}, {shown}{'' if held[name] else ' MISSED'}")
    if options.json:
        result = {
            "most_cost": MOST_COST,
            "held": held,
            "figures": figures | {"step_microseconds": added, "start_cpu": start},
            "step_microseconds": steps,
            "starts": starts,
            "rounds": rounds,
            "provenance": provenance(),
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
