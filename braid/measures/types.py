"""What a measure needs to know of a column's type: its family, from Spark's simple type string."""

import re

INTEGERS = ("tinyint", "smallint", "int", "bigint")
REALS = ("float", "double")
NUMBERS = frozenset({"integer", "decimal", "real"})
ORDERED = NUMBERS | {"text", "boolean", "binary", "date", "timestamp"}

# Sums of 28 digits stay within the 38 of a state for ten thousand million rows.
MAX_SUMMED_DIGITS = 28

_FAMILIES = dict.fromkeys(INTEGERS, "integer") | dict.fromkeys(REALS, "real") | {
    "string": "text", "boolean": "boolean", "binary": "binary", "date": "date",
    "timestamp": "timestamp", "timestamp_ntz": "timestamp",
}  # fmt: skip


def family(simple_type: str) -> str:
    """Such as "bigint" -> "integer", "decimal(10,2)" -> "decimal", "array<int>" -> "nested"."""
    name = re.split(r"[( <]", simple_type.strip().lower())[0]
    if name in ("decimal", "char", "varchar"):
        return "decimal" if name == "decimal" else "text"
    return _FAMILIES.get(name, "nested")


def digits(simple_type: str) -> tuple[int, int]:
    """Precision and scale of a decimal type."""
    found = re.fullmatch(r"\s*decimal\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)\s*", simple_type.lower())
    return (int(found[1]), int(found[2])) if found else (10, 0)
