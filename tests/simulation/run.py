"""Runs schedules from the command line: a range of seeds, one seed in full, or the table of mutations.

`python -m tests.simulation.run seeds 0 1000`, `python -m tests.simulation.run seed 7`,
`python -m tests.simulation.run table` (prints it) or `table --write` (renews docs/simulation.md).
"""

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.schedule import Run, Schedule, of_seed, shortest

PAGE = Path(__file__).parents[2] / "docs" / "simulation.md"
BEGIN, END = "<!-- mutations -->", "<!-- end of mutations -->"


def failure(seed: int) -> tuple[Schedule, str] | None:
    """The shortest schedule that fails as a seed's does, and how."""
    schedule = of_seed(seed)
    if Run(schedule).violation() is None:
        return None
    short = shortest(schedule, lambda one: Run(one).violation() is not None)
    return short, Run(short).violation() or ""


def run_seeds(seeds: Iterable[int], seconds: float = float("inf")) -> tuple[int, int, int | None]:
    """Schedules, steps, and the first seed that fails."""
    began, schedules, steps = time.monotonic(), 0, 0
    for seed in seeds:
        if time.monotonic() - began > seconds:
            break
        run = Run(of_seed(seed))
        schedules += 1
        if run.violation() is not None:
            return schedules, steps, seed
        steps += run.world.steps
    return schedules, steps, None


def row_of(mutation: Mutation) -> str:
    found = mutation.found()
    numbers = f"{found[0]} | {len(found[1].steps)}" if found else "not found | "
    return f"| {mutation.rule} | {mutation.broken} | {numbers} |"


def table(rows: Iterable[str]) -> str:
    head = ("| rule | mutation | schedules until found | steps of the shortest |", "|---|---|---|---|")
    return "\n".join((*head, *rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    several = commands.add_parser("seeds")
    several.add_argument("first", type=int)
    several.add_argument("number", type=int)
    commands.add_parser("seed").add_argument("seed", type=int)
    commands.add_parser("table").add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if asked.command == "seeds":
        return _seeds(asked.first, asked.number)
    if asked.command == "seed":
        print(of_seed(asked.seed))
        found = failure(asked.seed)
        print("no violation" if found is None else f"violation: {found[1]}\nshortest: {found[0]}")
        return int(found is not None)
    made = table(map(row_of, MUTATIONS))
    print(made)
    if asked.write:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}")
    return 0


def _seeds(first: int, number: int) -> int:
    began = time.monotonic()
    schedules, steps, failed = run_seeds(range(first, first + number))
    took = time.monotonic() - began
    print(f"{schedules:,} schedules, {steps:,} steps in {took:.1f} s: {schedules / took:,.0f} seeds a second")
    if failed is not None:
        print(f"seed {failed} fails: python -m tests.simulation.run seed {failed}")
    return int(failed is not None)


if __name__ == "__main__":
    sys.exit(main())
