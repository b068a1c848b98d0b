"""Measure whether `spdl why` is right about planted bottlenecks, how soon, and whether the gain it predicts comes.

Twelve scripts know nothing of being watched, and each has a bottleneck of another kind. In each round, each runs as it
is: once its buffers are full, its rate is measured, and then `spdl why PID --json` looks at it from outside. Then it
runs again with the remedy that the verdict recommends, and the rate is measured again. The gain of a round is the ratio
of the two rates. Two kinds are left out of that: a hang has no rate before it is repaired, and of oversubscription the
verdict predicts no gain, so its gain is only noted. Of a slow consumer, the loader is made faster, which should gain
nothing.

Claims: each verdict names the right stage and kind, each comes within 2 s of the command's start, and each predicted
gain is within 25 % of the gain of the remedy (medians).

Run it as `python benchmarks/why.py [--rounds N] [--rows NAME...] [--json FILE]`, on an idle machine: where other
programs have the cores, those limit what computes. The exit status says whether the claims hold.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).parents[1]))

from tests.observe.bottlenecks import BOTTLENECKS, PLANTED
from tests.observe.programs import observed, running_script

from spdl.cli._common.machine import provenance

if TYPE_CHECKING:
    from tests.observe.bottlenecks import Bottleneck

MARKS = {"seconds": 2.0, "off": 0.25}
WHY = (sys.executable, "-c", "import sys; from spdl.cli import main; sys.exit(main())", "why")
GAINS = {"predicted_gain": "predicted", "gain": "gained", "ratio": "ratio"}
# Of a pipeline that has delivered so many items, the buffers are full a second later. A hang is told by how long it
# lasts: longer than others, and two seconds at least.
DELIVERED, FILLING, HANGING = 20, 1.0, 3.0


def ask(pid: int) -> tuple[dict[str, Any], float]:
    """Return the verdict on a process, and how many seconds the command took."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    began = time.perf_counter()
    done = subprocess.run(
        [*WHY, str(pid), "--json"], check=False, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment
    )
    return json.loads(done.stdout), time.perf_counter() - began


def measure(name: str, arguments: list[str], seconds: float, *, asks: bool) -> dict[str, Any]:
    """Run a script; return how many items it takes per second, and the verdict on it."""
    hangs = bool(BOTTLENECKS[name].no_gain)
    with running_script(PLANTED / f"{name}.py", *arguments) as process:
        page = observed(process, lambda seen: seen.delivered >= DELIVERED)
        time.sleep(HANGING if hangs else FILLING)
        found: dict[str, Any] = {}
        if not hangs:
            before = page.observe()
            time.sleep(seconds)
            after = page.observe()
            if after.now <= before.now:
                raise SystemExit(f"{name}.py {arguments} stood still; its exit status is {process.poll()}")
            found["per_second"] = (after.delivered - before.delivered) / (after.now - before.now)
        if asks:
            found["verdict"], found["seconds"] = ask(process.pid)
    return found


def run_round(name: str, seconds: float) -> dict[str, Any]:
    """Ask for the verdict on a script, and apply its remedy."""
    planted = BOTTLENECKS[name]
    before = measure(name, [], seconds, asks=True)
    verdict = before["verdict"]
    right = (verdict["kind"], verdict["stage"]) == (planted.kind, planted.stage)
    kept = ("kind", "stage", "predicted_gain", "settings", "sentence")
    found = {"right": right, "seconds": before["seconds"], "verdict": {key: verdict[key] for key in kept}}
    if planted.no_gain or not right:
        return found
    arguments = planted.remedied(verdict)
    after = measure(name, arguments, seconds, asks=False)
    rates = {"before": before["per_second"], "after": after["per_second"]}
    return found | {"arguments": arguments, "per_second": rates, "gain": rates["after"] / rates["before"]}


def judge(planted: Bottleneck, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of a bottleneck, and whether the claims hold for it."""
    seconds = max(it["seconds"] for it in rounds)
    found: dict[str, Any] = {
        "kind": planted.kind,
        "stage": planted.stage,
        "right": sum(it["right"] for it in rounds),
        "seconds": seconds,
        "held": {"right": all(it["right"] for it in rounds), "seconds": seconds <= MARKS["seconds"]},
    }
    if planted.no_gain:
        return found | {"no_gain": planted.no_gain}
    applied = [it for it in rounds if "gain" in it]
    if not applied:
        return found | {"no_gain": "no verdict was right, so no remedy was applied"}
    found["gain"] = median(it["gain"] for it in applied)
    predicted = [it["verdict"]["predicted_gain"] for it in applied]
    if planted.no_prediction:
        found["no_prediction"] = planted.no_prediction
        found["held"]["unpredicted"] = predicted == [None] * len(applied)
    elif None in predicted:
        found["no_prediction"] = "the verdict should have predicted one"
        found["held"]["ratio"] = False
    else:
        ratio = median(it["verdict"]["predicted_gain"] / it["gain"] for it in applied)
        found |= {"predicted_gain": median(predicted), "ratio": ratio}
        found["held"]["ratio"] = abs(ratio - 1) <= MARKS["off"]
    return found


def shown(name: str, found: dict[str, Any], rounds: int) -> str:
    """Return a line on a bottleneck."""
    parts = [f"right {found['right']} of {rounds}", f"{found['seconds']:.2f} s"]
    parts += [f"{what} {found[key]:.2f}x" for key, what in GAINS.items() if key in found]
    parts += [found[key] for key in ("no_prediction", "no_gain") if key in found]
    missed = [claim for claim, holds in found["held"].items() if not holds]
    return f"{name}: {', '.join(parts)}{' MISSED ' if missed else ''}{', '.join(missed)}"


def main() -> int:
    """Run the rounds, print what comes of them and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="to measure a rate (default: %(default)s)")
    parser.add_argument("--rows", nargs="+", choices=BOTTLENECKS, default=list(BOTTLENECKS), metavar="NAME")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in options.rows}
    load = os.getloadavg()[0]
    for number in range(options.rounds):
        for name, each in rounds.items():
            each.append(run_round(name, options.seconds))
            print(number + 1, name, each[-1]["verdict"]["sentence"], each[-1].get("per_second", ""), flush=True)
    figures = {name: judge(BOTTLENECKS[name], each) for name, each in rounds.items()}
    for name, found in figures.items():
        print(shown(name, found, options.rounds))
    if options.json:
        result = {
            "marks": MARKS,
            "rounds": options.rounds,
            "seconds": options.seconds,
            "load_average": {"before": load, "after": os.getloadavg()[0]},
            "figures": figures,
            "runs": rounds,
            "provenance": provenance(),
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(all(found["held"].values()) for found in figures.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
