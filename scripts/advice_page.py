"""Write the recorded runs of benchmarks/advise.py and benchmarks/planted_jobs.py into docs/measuring.md.

`python scripts/advice_page.py --record` runs both before, on an otherwise idle machine, in some 45 minutes. Commit the
page and the results together; a test compares them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from sections import replace_section

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "measuring.md"
RESULTS = ROOT / "benchmarks" / "results"
LABEL = "scripts/advice_page.py"
ROUNDS = {"advise": 6, "planted_jobs": 3}
JOBS = {
    "starved_by_decoding": "decodes photos on cores that are all in use",
    "starved_by_pickling": "pickles trees of objects",
    "starved_by_lock": "waits at a lock",
    "not_starved": "hardly waits for data",
}


def costs(run: dict[str, Any]) -> str:
    """Return what the command costs a job, and how right it was about jobs that it is developed with."""
    figures, rounds = run["figures"], run["rounds"]
    verdicts = {each["verdict"] for it in rounds.values() for each in it}
    lines = [
        f"| {JOBS[name]} | {rounds[name][0]['verdict']} | {100 * figures[name]['cost']:.1f} % | "
        f"{gain(figures[name], 'tried_gain', 'predicted_gain')} | {gain(figures[name], 'gain')} |"
        for name in rounds
    ]
    old = "decoding" in verdicts
    words = " That version named the part of the work that took the most time, and predicted gains." if old else ""
    return (
        f"It costs {figures['step_microseconds']:.1f} microseconds for a step, {figures['start_cpu']:.2f} seconds of "
        "CPU for the command itself, and this part of the CPU time of these jobs, without the trial:\n\n"
        "| a job that | verdict | costs | said to gain | an epoch gained |\n| --- | --- | --- | --- | --- |\n"
        + "\n".join(lines)
        + f"\n\nThe verdict was the same, and right, in each of {len(next(iter(rounds.values())))} rounds{missed(run)}."
        f"{words} {origin(run, 'advise')}\n"
    )


def planted(run: dict[str, Any]) -> str:
    """Return how right the commands were about jobs that they were not tuned on."""
    right = sum(all(each["right"] for each in it) for it in run["runs"].values())
    lines = []
    for name, it in run["runs"].items():
        kinds = dict.fromkeys(kind for each in it for kind in each["kinds"].values())
        advice = dict.fromkeys(each["name"] for one in it for each in one["advice"])
        for recommended in advice or {"": None}:
            found = [each for one in it for each in one["advice"] if each["name"] == recommended]
            held = all(holds for each in found for holds in each["held"].values())
            said = [f"{median(tried):.2f}x tried" for tried in [values(found, "tried")] if tried]
            said += [f"at least {median(least):.2f}x" for least in [values(found, "least")] if least]
            said += [f"at most {median(bound):.2f}x" for bound in [values(found, "bound")] if bound and not said]
            gained = f"{median(values(found, 'gain')):.2f}x{'' if held else ' **missed**'}" if found else ""
            cells = (name.replace("_", " "), ", ".join(kinds), recommended, ", ".join(said), gained)
            lines.append(f"| {' | '.join(cells)} |")
    return (
        "| job | verdict | recommended | said to gain | gained |\n| --- | --- | --- | --- | --- |\n"
        + "\n".join(lines)
        + f"\n\nThe verdict was right in every round about {right} of {len(run['runs'])} jobs; medians of "
        f"{run['rounds']} round{'s' if run['rounds'] > 1 else ''}. {origin(run, 'planted_jobs')}\n"
    )


def values(found: list[dict[str, Any]], key: str) -> list[float]:
    """Return the figures of that name that are there."""
    return [each[key] for each in found if each.get(key) is not None]


def gain(figures: dict[str, Any], *keys: str) -> str:
    """Return the first of some figures of a job whose gain was measured."""
    return next((f"{figures[key]:.2f}x" for key in keys if key in figures and "gain" in figures), "")


def missed(run: dict[str, Any]) -> str:
    """Return which claims did not hold, as the end of a sentence."""
    names = [name.replace("_", " ") for name, held in run["held"].items() if not held]
    return f", but for **missed** marks: {', '.join(names)}" if names else ""


def origin(run: dict[str, Any], name: str) -> str:
    """Return where and when a benchmark was recorded."""
    it = run["provenance"]
    return (
        f"On {it['cores']:g} cores ({it['cpu']}), Python {it['python']}, {it['date'][:10]}, commit {it['commit']}, by "
        f"`python benchmarks/{name}.py`."
    )


def read(name: str) -> dict[str, Any]:
    """Return the record of a benchmark."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def filled(text: str) -> str:
    """Return the page with both sections as the records say."""
    text = replace_section(text, f"{LABEL}, costs", costs(read("advise")))
    return replace_section(text, f"{LABEL}, planted", planted(read("planted_jobs")))


def main() -> None:
    """Record, if that is asked for, and update the page."""
    for name, rounds in ROUNDS.items() if "--record" in sys.argv[1:] else ():
        file = RESULTS / f"{name}.json"
        # A claim that does not hold is recorded as well.
        script = str(ROOT / "benchmarks" / f"{name}.py")
        subprocess.run([sys.executable, script, "--rounds", str(rounds), "--json", str(file)], check=False)
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
