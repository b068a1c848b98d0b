"""Measure whether `spdl advise` and `spdl why` are right about 24 jobs that nobody tuned them on.

The jobs are in `benchmarks/_planted_jobs`. Those with PyTorch's DataLoader run under `spdl advise`; at those with a
pipeline or a loader of ours, `spdl why --try` looks from outside while they run. Each says in its file, as data, which
kinds of verdict are right and why. What the tool recommends is then applied as its reader would: lines and arguments
are changed as the page says, or the job is told by its environment, as its file says. The job runs before and after
that, in turns, twice each, and its own clock measures both rates.

Claims, for each job and round: the kind is right; what was tried and gained g gains between 0.8 g and 1.25 g, and what
is said to gain at least g, 0.8 g or more; a bound is exceeded by 25 % at most; and nothing that is recommended makes a
job slower (0.95 of its rate).

Run it as `python benchmarks/planted_jobs.py [--rounds N] [--only NAME...] [--json FILE]`, on an idle machine: where
other programs have the cores, those limit what computes. A round takes some ten minutes on two cores. The exit status
says whether the claims hold.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from spdl.cli._common.machine import provenance

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS = Path(__file__).parent / "_planted_jobs"
MARKS = {"least_of_tried": 0.8, "most_of_tried": 1.25, "least_of_least": 0.8, "most_of_bound": 1.25, "least": 0.95}
SPDL = (sys.executable, "-m", "spdl")
TURNS = 2
# `spdl advise` recommends nothing that gains less.
WORTH = 1.1
# `spdl why` looks at a job whose buffers are full, for as long as it takes, which is far less than this.
FILLING, WATCHED = 1.0, 60.0


@dataclass(frozen=True)
class Advice:
    """One thing that is recommended: its name, what it gains by its trial, at least or at most, and how to apply it."""

    name: str
    tried: float | None = None
    least: float | None = None
    bound: float | None = None
    source: str = ""
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What a tool says of a job: the kinds of its verdicts by rank, its words, and all that it recommends."""

    kinds: dict[str, str]
    sentence: str
    advice: list[Advice]


def planted(job: Path) -> dict[str, Any]:
    """Return what a job says of itself, without running it."""
    for node in ast.parse(job.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PLANTED":
            found: dict[str, Any] = ast.literal_eval(node.value)
            return found
    raise SystemExit(f"{job} has no PLANTED")


def environment(seconds: float, **others: str) -> dict[str, str]:
    """Return the environment of a job that measures for some seconds."""
    path = os.pathsep.join([str(JOBS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "SECONDS": str(seconds), "PYTHONWARNINGS": "ignore", **others}


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    """Run a job, and end it with all that it has started."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=environment(WATCHED)
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def rate(job: Path, seconds: float, advice: Advice) -> float:
    """Run a job that follows an advice; return how many steps it takes per second."""
    with tempfile.TemporaryDirectory() as folder:
        script = job
        if advice.source:
            script = Path(folder) / job.name
            script.write_text(advice.source)
        done = subprocess.run(
            [sys.executable, str(script)],
            check=False,
            capture_output=True,
            text=True,
            env=environment(seconds, **advice.environment),
        )
    rates = [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("rate ")]
    if not rates:
        raise SystemExit(f"{job.name} measured nothing with {advice}:\n{done.stdout}{done.stderr}")
    return rates[0]


def ask_advise(job: Path, known: dict[str, Any], seconds: float) -> Answer:
    """Run a job under `spdl advise`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        subprocess.run(
            [*SPDL, "advise", "--json", str(file), "--", sys.executable, str(job)],
            check=True,
            capture_output=True,
            env=environment(2 * seconds),
        )
        figures = json.loads(file.read_text())
    if not figures["loaders"]:
        return Answer({"": figures["verdict"]}, figures["sentence"], [])
    loader = figures["loaders"][0]
    verdict, advice = loader["verdict"], []
    if best := verdict["best"]:
        keywords = {"num_workers": best["workers"]}
        if best["what"] == "unproven thread":
            keywords["workers"] = "thread"
        changes = loader["changes"] if best["what"] != "more" else []
        advice.append(Advice(best["what"], **trial(best), source=follow(job, changes, keywords)))
    advice += [
        Advice("images", **trial(way), environment=known["remedies"]["images"])
        for way in verdict["tried"]
        if way["what"] == "images" and way["gain"] >= WORTH and way["least_gain"] >= 1
    ]
    if (bound := verdict["keeping_bound"]) and bound >= WORTH:
        advice.append(Advice("keeping", bound=bound, source=follow(job, [], {"persistent_workers": True})))
    return Answer({"": figures["verdict"]}, figures["sentence"], advice)


def trial(way: dict[str, Any]) -> dict[str, float]:
    """Return what a way to load that was tried is said to gain."""
    return {"least" if way["is_bound"] else "tried": way["gain"]}


def follow(job: Path, changes: list[dict[str, Any]], keywords: dict[str, Any]) -> str:
    """Return the source of a job with its lines changed, and arguments passed where it makes its loader."""
    lines = job.read_text().splitlines()
    for change in reversed(changes):
        lines[change["line"] - 1 : change["last"]] = change["new"]
    tree = ast.parse("\n".join(lines))
    (call,) = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "DataLoader")
    call.keywords = [it for it in call.keywords if it.arg not in keywords]
    call.keywords += [ast.keyword(name, ast.Constant(value)) for name, value in keywords.items()]
    return ast.unparse(tree)


def ask_why(job: Path, known: dict[str, Any], seconds: float) -> Answer:
    """Run a job, and ask `spdl why` about it once its buffers are full."""
    with running(sys.executable, str(job)) as process:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise SystemExit(f"{job.name} ended with status {process.wait()}")
        time.sleep(FILLING)
        trial = () if "rank" in known else ("--try", str(seconds))  # It is for one pipeline.
        command = [*SPDL, "why", str(process.pid), *trial, "--json"]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, env=environment(WATCHED))
    found = json.loads(done.stdout)
    verdicts = found if isinstance(found, list) else [found]
    (verdict,) = (it for it in verdicts if it["rank"].startswith(known.get("rank", "")))
    advice = []
    if remedy := known.get("remedies", {}).get(verdict["kind"]):
        # A remedy may be made of the numbers that the verdict names. Where it names none, it recommends none.
        with suppress(KeyError):
            variables = {name: value.format(**verdict["settings"]) for name, value in remedy.items()}
            tried = verdict.get("tried", {}).get("gain")
            # A reader follows nothing that has gained nothing when it was tried.
            if tried is None or tried >= WORTH:
                bound = verdict["predicted_gain"]
                advice.append(Advice(verdict["kind"], tried=tried, bound=bound, environment=variables))
    return Answer({it["rank"]: it["kind"] for it in verdicts}, " ".join(it["sentence"] for it in verdicts), advice)


def run_round(job: Path, seconds: float) -> dict[str, Any]:
    """Ask about a job, apply what is recommended, and judge all of it."""
    known = planted(job)
    answer = (ask_advise if known["tool"] == "advise" else ask_why)(job, known, seconds)
    rates: dict[str, list[float]] = {"": [], **{it.name: [] for it in answer.advice}}
    if answer.advice:
        for _ in range(TURNS):
            for advice in (Advice(""), *answer.advice):
                rates[advice.name].append(rate(job, seconds, advice))
    return {
        "kinds": answer.kinds,
        "sentence": answer.sentence,
        "right": judge_kinds(known, answer.kinds),
        "rates": rates,
        "advice": [judge_advice(it, median(rates[it.name]) / median(rates[""])) for it in answer.advice],
    }


def judge_advice(advice: Advice, gain: float) -> dict[str, Any]:
    """Return what an advice has gained, and whether the claims hold for it."""
    held = {"not slower": gain >= MARKS["least"]}
    if advice.tried is not None:
        held["tried"] = MARKS["least_of_tried"] <= gain / advice.tried <= MARKS["most_of_tried"]
    if advice.least is not None:
        held["least"] = gain >= MARKS["least_of_least"] * advice.least
    if advice.bound is not None:
        held["bound"] = gain <= MARKS["most_of_bound"] * advice.bound
    return {**asdict(advice), "gain": gain, "held": held}


def judge_kinds(known: dict[str, Any], kinds: dict[str, str]) -> bool:
    """Return whether each rank's kind is one of those that are right for it."""
    others = known.get("others", known["kinds"])
    return all(
        kind in (known["kinds"] if rank.startswith(known.get("rank", "")) else others) for rank, kind in kinds.items()
    )


def held(found: dict[str, Any]) -> bool:
    """Return whether all claims held for a job in a round."""
    return bool(found["right"]) and all(holds for it in found["advice"] for holds in it["held"].values())


def shown(name: str, found: dict[str, Any]) -> Iterator[str]:
    """Yield the rows of a job in the table: one for each thing that was recommended, or one."""
    kinds = ", ".join(found["kinds"].values())
    for advice in found["advice"] or [{"name": "", "held": {}}]:
        missed = [] if found["right"] else ["kind"]
        missed += [claim for claim, holds in advice["held"].items() if not holds]
        figures = [f"{advice[key]:.2f}x" if advice.get(key) else "" for key in ("tried", "least", "bound", "gain")]
        row = f"{name:<25}  {kinds:<20}  {advice['name']:<18}" + "".join(f"  {it:>7}" for it in figures)
        yield f"{row}  {'MISSED ' if missed else ''}{', '.join(missed)}".rstrip()


def main() -> int:
    """Run the rounds, print what comes of them and write it."""
    jobs = {job.stem: job for job in sorted(JOBS.glob("[!_]*.py"))}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.5, help="to measure a rate (default: %(default)s)")
    parser.add_argument("--only", nargs="+", choices=jobs, default=list(jobs), metavar="NAME", help=", ".join(jobs))
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in options.only}
    load = os.getloadavg()[0]
    print(f"{'job':<25}  {'kind':<20}  {'recommended':<18}  {'tried':>7}  {'least':>7}  {'bound':>7}  {'gained':>7}")
    for _ in range(options.rounds):
        for name, each in rounds.items():
            each.append(run_round(jobs[name], options.seconds))
            print("\n".join(shown(name, each[-1])), flush=True)
    holding = {name: all(map(held, each)) for name, each in rounds.items()}
    print(f"{sum(holding.values())} of {len(holding)} jobs held in every round")
    if options.json:
        result = {
            "marks": MARKS,
            "rounds": options.rounds,
            "seconds": options.seconds,
            "load_average": {"before": load, "after": os.getloadavg()[0]},
            "held": holding,
            "planted": {name: planted(jobs[name]) for name in rounds},
            "runs": rounds,
            "provenance": provenance(),
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(holding.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
