"""The reference of tables says what Spark makes of the definitions."""

from typing import Any

from tests.documents import module_at


def test_the_columns_of_tables_are_up_to_date(spark: Any) -> None:
    generate = module_at("generate")
    page = (generate.REFERENCE / "tables.md").read_text(encoding="utf-8")
    fresh = generate.renewed("tables.md", generate.tables_reference(spark))
    assert page == fresh, "run `python docs/generate.py`"
