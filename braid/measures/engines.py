"""Spark's and Arrow's functions for measures, each loaded when it is first used: a view is defined without them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import datasketches as ds
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark.sql import Column
    from pyspark.sql import functions as F
    from pyspark.sql.types import DataType
else:
    Column = DataType = Any

    class _Lazy:
        def __init__(self, module: str) -> None:
            self._module = module

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self._module), name)

    F, pa, pc = _Lazy("pyspark.sql.functions"), _Lazy("pyarrow"), _Lazy("pyarrow.compute")
    ds, np = _Lazy("datasketches"), _Lazy("numpy")

__all__ = ["Column", "DataType", "F", "ds", "np", "pa", "pc"]
