"""Measures that cannot be merged, refused by name with the one to use instead."""

import re
from collections.abc import Callable
from typing import NoReturn

from braid.errors import DefinitionError

MEASURES = (
    "count(), count(column), sum_(column), min_(column), max_(column), mean(column), stddev(column), "
    "approx_distinct(column), quantile(column, q)"
)

_DISTINCT = "approx_distinct(column), whose relative standard error is 1.6 %"
_ORDER = "min_(column) or max_(column), for example of the event time"
_REFUSED = {
    "count_distinct": ("an exact distinct count", "needs every value it has seen", _DISTINCT),
    "median": ("an exact median", "needs every value, in order", "quantile(column, 0.5), within 1 %"),
    "percentile": ("an exact percentile", "needs every value, in order", "quantile(column, 0.95), within 1 %"),
    "mode": ("a most frequent value", "needs the count of every value", "a view keyed by that column with count()"),
    "first": ("a first value", "depends on the order in which events arrive", _ORDER),
    "last": ("a last value", "depends on the order in which events arrive", _ORDER),
    "any_value": ("any value", "depends on the order in which events arrive", _ORDER),
    "collect_list": ("a list of all values", "grows without bound", "the log itself, or a view keyed by that column"),
    "collect_set": ("a set of all values", "grows without bound", "approx_distinct(column), or a view keyed by it"),
}  # fmt: skip

# As people write them in SQL or pandas, most telling first: "count(distinct host)" is not a count.
_WORDS = (
    (r"distinct|nunique", "count_distinct"), (r"median", "median"), (r"percentile|quantile", "percentile"),
    (r"\bmode\b", "mode"), (r"\bfirst", "first"), (r"\blast", "last"), (r"any_value", "any_value"),
    (r"collect_set", "collect_set"), (r"collect|array_agg|list", "collect_list"),
)  # fmt: skip
_OFFERED = (
    (r"std|var", 'stddev("column")'), (r"avg|mean", 'mean("column")'), (r"\bsum", 'sum_("column")'),
    (r"\bmin", 'min_("column")'), (r"\bmax", 'max_("column")'), (r"count|size", "count()"),
)  # fmt: skip


def _message(name: str) -> str:
    what, why, instead = _REFUSED[name]
    return f"{name}: {what} {why}, so its states cannot be merged. Use {instead} instead."


def _refused(name: str) -> Callable[..., NoReturn]:
    def refused(*_: object, **__: object) -> NoReturn:
        raise DefinitionError(_message(name))

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = _message(name)
    return refused


count_distinct = _refused("count_distinct")
median = _refused("median")
percentile = _refused("percentile")
mode = _refused("mode")
first = _refused("first")
last = _refused("last")
any_value = _refused("any_value")
collect_list = _refused("collect_list")
collect_set = _refused("collect_set")


def refuse(value: object) -> NoReturn:
    """Says why something that is not a measure is none, and which measure was probably meant."""
    text = getattr(value, "__name__", None) or str(value)
    lower = text.lower()
    for pattern, name in _WORDS:
        if re.search(pattern, lower):
            raise DefinitionError(f"{text!r} is not a measure. {_message(name)}")
    for pattern, measure in _OFFERED:
        if re.search(pattern, lower):
            raise DefinitionError(f"{text!r} is not a measure: write {measure}, imported from braid.")
    raise DefinitionError(f"{text!r} is not a measure. The measures are {MEASURES}.")
