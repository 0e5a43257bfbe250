"""No schedule gives a wrong number, and every rule that is broken on purpose does."""

import random

import pytest

from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.run import BEGIN, END, PAGE, failure, row_of, run_seeds
from tests.simulation.schedule import Run, of_seed

# A fixed set, the same on every machine.
SEEDS = 400


def test_a_seed_gives_one_schedule_and_one_outcome() -> None:
    for seed in range(20):
        one, other = Run(of_seed(seed)), Run(of_seed(seed))
        assert one.violation() == other.violation()
        assert (one.world.steps, one.world.rows) == (other.world.steps, other.world.rows)


def test_no_schedule_of_a_fixed_set_gives_a_wrong_number() -> None:
    schedules, steps, failed = run_seeds(range(SEEDS))
    assert failed is None, says(failed)
    assert (schedules, steps > 100 * SEEDS) == (SEEDS, True)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: f"{one.rule}: {one.broken}")
def test_a_rule_that_is_broken_is_found_as_soon_as_the_documents_say(mutation: Mutation) -> None:
    assert row_of(mutation) in PAGE.read_text().split(BEGIN)[1].split(END)[0].splitlines(), (
        "`python -m tests.simulation.run table --write` renews the page"
    )
    with mutation.applied():
        pass
    assert Run(of_seed(0)).violation() is None, "what was broken is whole again"


@pytest.mark.soak
def test_no_new_schedule_gives_a_wrong_number() -> None:
    first = random.SystemRandom().randrange(10**9)
    schedules, steps, failed = run_seeds(range(first, first + 10**9), seconds=600)
    print(f"{schedules:,} schedules from seed {first} on, {steps:,} steps")
    assert failed is None, says(failed)


def says(seed: int | None) -> str:
    if seed is None:
        return ""
    found = failure(seed)
    return f"seed {seed}: {found[1] if found else ''}\n{found[0] if found else ''}\n"
