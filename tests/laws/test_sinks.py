"""Laws of what leaves: whatever moves, in however many steps, a sink that applies it holds what it is to hold."""

import random
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from serving_layer.sinks.outgoing import State, Step, joined, outgoing, row_id, wanted

EMITS = ("updates", "final", "revisions")
IDS = st.sampled_from(["a", "b", "c", "d"])
ROWS = st.fixed_dictionaries(
    {
        "hits": st.integers(0, 2),
        "_status": st.sampled_from(["provisional", "final", "revised"]),
        "_version": st.integers(1, 2),
    }
)
STATES = st.dictionaries(IDS, ROWS)


def step_between(before: State, after: State, more: set[str]) -> Step:
    """A step tells of every row that differs, and perhaps of some that do not."""
    told = {at for at in before.keys() | after.keys() if before.get(at) != after.get(at)} | more
    return Step(*({at: row for at, row in state.items() if at in told} for state in (before, after)))


def applied(emit: str, held: dict[str, Any], step: Step) -> dict[str, Any]:
    changed, withdrawn = outgoing(emit, step)  # type: ignore[arg-type]
    return {at: row for at, row in held.items() if at not in withdrawn} | changed


def said(emit: str, state: State) -> Any:
    """The twin: what a sink is to hold, by its definition. In a history the same number of a new version is no news."""
    kept = {
        at: dict(row) for at, row in state.items() if emit == "updates" or row["_status"] != "provisional"
    }
    if emit == "revisions":
        for row in kept.values():
            del row["_version"]
    return kept


@given(st.lists(STATES, min_size=2, max_size=6), st.sets(IDS), st.sampled_from(EMITS))
def test_steps_one_by_one_lead_to_what_is_wanted(states: list[State], more: set[str], emit: Any) -> None:
    held = wanted(emit, states[0])
    for before, after in pairwise(states):
        held = applied(emit, held, step_between(before, after, more))
        assert said(emit, held) == said(emit, after)


@given(st.lists(STATES, min_size=2, max_size=6), st.sets(IDS), st.sampled_from(EMITS))
def test_steps_that_are_joined_lead_to_the_same(states: list[State], more: set[str], emit: Any) -> None:
    steps = [step_between(one, two, more) for one, two in pairwise(states)]
    whole = Step({}, {})
    for step in steps:
        whole = joined(whole, step)
    assert said(emit, applied(emit, wanted(emit, states[0]), whole)) == said(emit, states[-1])
    for at in whole.before:
        assert whole.before[at] == states[0][at]


@given(STATES, st.sampled_from(EMITS))
def test_what_is_held_already_does_not_leave_again(state: State, emit: Any) -> None:
    assert outgoing(emit, Step(wanted(emit, state), state)) == ({}, {})


@given(
    st.dictionaries(st.text(max_size=3), st.one_of(st.none(), st.text(max_size=3), st.integers()), min_size=2)
)
def test_a_row_is_known_by_its_window_and_keys_whatever_their_order(keys: dict[str, Any]) -> None:
    turned = dict(random.Random(0).sample(list(keys.items()), len(keys)))
    assert row_id("2024-01-01", keys) == row_id("2024-01-01", turned)
    assert row_id("2024-01-01", keys) != row_id("2024-01-02", keys)
    first = next(iter(keys))
    assert row_id("2024-01-01", keys) != row_id("2024-01-01", keys | {first: "another value"})
