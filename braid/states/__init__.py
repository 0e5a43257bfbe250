"""States of a view as tables: prepared, merged and presented, with Spark and with Arrow."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from braid.measures import Measure, count

if TYPE_CHECKING:
    from braid.define.view import View

EVENTS = count()


def state_columns(view: "View") -> Mapping[str, Measure]:
    """The stored state columns and how they merge; measures that need the same state share one.

    Events are always counted, whatever the view measures: folds prove by it that they lost nothing, and answers say
    by it how much of them comes from where.
    """
    measures = (*view.measures.values(), EVENTS)
    return {measure.state_name: measure for measure in measures}
