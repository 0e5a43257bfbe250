"""How far a number may be from the right one: the last digits of floats, and the errors that sketches state."""

from dataclasses import dataclass

from braid.measures.base import Measure
from braid.measures.distinct import ApproxDistinct
from braid.measures.histogram import Quantile

# Sums of floating-point numbers depend on the order of adding, in their last digits.
FLOAT_TOLERANCE = 1e-9
# The stated error of a sketch is a standard one: of ten million estimates one is further off than this many of them.
DISTINCT = 5 * 0.016
QUANTILE = 0.01


@dataclass(frozen=True)
class Bound:
    """How far a measure may be from the exact value, relative to it."""

    says: str
    relative: float


def bound_of(measure: Measure) -> Bound | None:
    """None for a measure that is exact."""
    if isinstance(measure, ApproxDistinct):
        return Bound(measure.bound(), DISTINCT)
    return Bound(measure.bound(), QUANTILE) if isinstance(measure, Quantile) else None
