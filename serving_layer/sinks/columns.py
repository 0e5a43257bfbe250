"""The columns of a view's numbers, and plain values in the types of their columns again."""

from decimal import Decimal
from typing import Any

import pyarrow as pa

from braid.merge.arrow import Snapshot
from serving_layer.answer.numbers import KNOWN, STATUS, numbers


def columns_of_numbers(snapshot: Snapshot) -> pa.Schema:
    """The columns of a view's numbers: keys, window, measures."""
    return pa.schema([field for field in numbers(snapshot).schema if field.name not in (*KNOWN, STATUS)])


def typed_array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Plain values in their own type again."""
    if pa.types.is_decimal(kind):
        return pa.array([None if value is None else Decimal(value) for value in values], kind)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_floating(kind):
        texts = [None if value is None else str(value) for value in values]
        return pa.array(texts, pa.string()).cast(kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array([None if value is None else bytes.fromhex(value) for value in values], kind)
    return pa.array(values, kind)
