"""States of a view as tables: prepared, merged and presented, with Spark and with Arrow."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from braid.measures import Measure

if TYPE_CHECKING:
    from braid.view import View


def state_columns(view: "View") -> Mapping[str, Measure]:
    """The stored state columns and how they merge; measures that need the same state share one."""
    return {measure.state_name: measure for measure in view.measures.values()}
