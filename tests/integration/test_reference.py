"""The reference of tables says what Spark makes of the definitions."""

import importlib.util
from pathlib import Path
from typing import Any

REFERENCE = Path(__file__).parents[2] / "docs" / "generate.py"


def test_the_columns_of_tables_are_up_to_date(spark: Any) -> None:
    spec = importlib.util.spec_from_file_location("generate", REFERENCE)
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    page = (generate.REFERENCE / "tables.md").read_text(encoding="utf-8")
    fresh = generate.renewed("tables.md", generate.tables_reference(spark))
    assert page == fresh, "run `python docs/generate.py`"
