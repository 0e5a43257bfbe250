"""The measures: numbers that can be computed in parts and merged in any order."""

from braid.measures.aggregates import Count, Max, Mean, Min, Sum
from braid.measures.base import Measure
from braid.measures.distinct import ApproxDistinct
from braid.measures.histogram import Quantile
from braid.measures.moments import StdDev
from braid.measures.refused import refuse

__all__ = [
    "Measure",
    "approx_distinct",
    "count",
    "max_",
    "mean",
    "min_",
    "quantile",
    "refuse",
    "stddev",
    "sum_",
]


def count(column: str | None = None) -> Measure:
    """The number of events, or of events with a value in a column."""
    return Count(column)


def sum_(column: str) -> Measure:
    """The sum of a column: exact for integers and decimals; null when there is no value."""
    return Sum(column)


def min_(column: str) -> Measure:
    """The least value of a column; null when there is none."""
    return Min(column)


def max_(column: str) -> Measure:
    """The greatest value of a column, NaN being the greatest; null when there is none."""
    return Max(column)


def mean(column: str) -> Measure:
    """The mean of a column, as a double; null when there is no value."""
    return Mean(column)


def stddev(column: str) -> Measure:
    """The sample standard deviation of a column; null for fewer than two values."""
    return StdDev(column)


def approx_distinct(column: str) -> Measure:
    """The number of different values of a column, with a relative standard error of 1.6 %."""
    return ApproxDistinct(column)


def quantile(column: str, q: float) -> Measure:
    """The value that a share q of a column's values does not exceed, with a relative error of at most 1 %."""
    return Quantile(column, q)
