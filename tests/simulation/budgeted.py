"""Run random programs within a random budget of bytes, and report what goes wrong.

Each item weighs a few bytes. What comes out is held against the model, which knows no budget. Besides, the items may
keep more than the budget only by what was reserved too little for them: all that a result weighs which was made alone,
and else by how much it is larger than was expected when it began. After a stage has failed, anything is allowed. What
lies still meanwhile is not looked at, since the budget may hold it.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
from random import Random
from typing import Any

from tests.simulation.instrument import import_all, install
from tests.simulation.planted import patch_of

# What is said of a stage that the budget holds back.
_NOT_MODELLED = (" s blocked, not ", "something lay in a queue for ", " while more urgent ones wait for ")


def main() -> int:
    """Run and report. Return the exit status: 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="how many runs, each with a program and a schedule")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first run; the next ones follow")
    parser.add_argument("--findings", type=int, default=1, help="stop after so many runs with findings")
    parser.add_argument("--mutant", help="plant the bug of tests/mutation that has this name")
    arguments = parser.parse_args()
    logging.disable()
    install(patch_of(arguments.mutant))
    import_all()
    return _explore(arguments)


def _explore(arguments: argparse.Namespace) -> int:  # noqa: C901 - functions that see each other.
    # The world must be installed before.
    from tests.simulation.explore import draw_program, simulate  # noqa: PLC0415
    from tests.simulation.programs import build, rest  # noqa: PLC0415
    from tests.simulation.programs.inside import budget as module  # noqa: PLC0415
    from tests.simulation.programs.item import Item  # noqa: PLC0415

    patched: dict[str, Any] = {"budget": module, "build": build, "rest": rest.Rest}
    build_pipeline = patched["build"].build_pipeline
    seed = arguments.seed
    findings: list[str] = []
    bounded = 0
    blocked = 0

    def weigh(item: Any) -> int:
        if isinstance(item, Item):
            return 1 if even else 1 + Random(f"{item.key}").randrange(4)
        if isinstance(item, (list, tuple)):
            return sum(map(weigh, item))
        return 0

    class Checked(module.Budget):
        __slots__ = ("let_go", "reserved", "short")

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            # The least that was reserved for a result which is being made, by the place.
            self.reserved: dict[Any, int] = {}
            # How much more than that an item weighs, by its root.
            self.short: dict[Any, int] = {}
            # The same of what was forgotten last: the shares of a batch come right behind it.
            self.let_go = 0

        def admits(self, channel: Any) -> bool:
            nonlocal blocked
            place = self._places[channel]
            admitted = super().admits(channel)
            blocked += not admitted
            if admitted:
                reserved = self._expected(place) if self._fits(place) else 0
                others = self.reserved.get(place, reserved) if place.maker.in_ops() else reserved
                self.reserved[place] = min(reserved, others)
            return admitted

        def note(self, channel: Any, root: Any, item: Any) -> None:
            if (place := self._places.get(channel)) is not None:
                self.short[root] = max(0, weigh(item) - self.reserved.get(place, 0))
            elif root not in self.short:
                self.short[root] = min(weigh(item), self.let_go)
                self.let_go -= self.short[root]
            super().note(channel, root, item)

        def forget(self, root: Any) -> None:
            self.let_go = self.short.get(root, 0)
            super().forget(root)

        def note_part(self, whole: Any, root: Any, item: Any) -> None:
            part = min(weigh(item), self.short.get(whole, 0))
            self.short[whole] = self.short.get(whole, 0) - part
            self.short[root] = part
            super().note_part(whole, root, item)

        def move(self, roots: Any, into: Any) -> None:
            roots = list(roots)
            self.short[into] = sum(self.short.get(root, 0) for root in (into, *roots))
            super().move(roots, into)

        def _set(self, root: Any, weight: int) -> None:
            super()._set(root, weight)
            if not weight:
                self.short.pop(root, None)
            held, allowed = self.bytes_now(), self.limit + sum(self.short.values())
            if held > allowed and not self._engine.failures:
                findings.append(f"{held} bytes are held of {allowed}")

    def within(*arguments: Any, **options: Any) -> Any:
        nonlocal bounded
        limit = Random(f"budget {seed}").choice((1, 2, 3, 5, 8, 13, 40))
        try:
            made = build_pipeline(*arguments, max_bytes=limit, **options)
        except ValueError:
            return build_pipeline(*arguments, **options)
        bounded += 1
        return made

    patched["budget"].weigh = weigh
    patched["budget"].Budget = Checked
    patched["build"].build_pipeline = within
    patched["rest"]._look_around = lambda _: None
    gc.collect()
    gc.freeze()
    gc.disable()
    found = 0
    for seed in range(arguments.seed, arguments.seed + arguments.runs):
        even = bool(Random(f"even {seed}").randrange(2))
        program = draw_program(seed)
        findings.clear()
        outcome = simulate(program, seed)
        # The model of what could go on knows no budget.
        told = [text for text in outcome.findings if not any(each in text for each in _NOT_MODELLED)]
        if every := [*told, *dict.fromkeys(findings)]:
            found += 1
            print(f"seed {seed}: * " + "\n* ".join(every), program.to_json(), sep="\n", flush=True)  # noqa: T201
            if found == arguments.findings:
                break
        gc.collect()
    runs = seed - arguments.seed + 1
    print(  # noqa: T201 - printing is this program's purpose.
        f"{runs} runs from seed {arguments.seed}, {bounded} pipelines bounded, {blocked} looks refused, "
        f"{found} with findings"
    )
    return int(found > 0)


if __name__ == "__main__":
    status = main()
    # A run that hung leaves fibers, which nobody can end.
    sys.stdout.flush()
    os._exit(status)
