"""The one Spark session writes and reads Delta, and reads Kafka."""

from pathlib import Path

import pyarrow as pa
import pytest

from braid.errors import BraidError
from braid.runtime.settings import Settings
from braid.runtime.spark import from_arrow, local_cores, session_config, spark_session


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[3]", 3), ("local[2,4]", 2)])
def test_a_local_master_says_how_many_cores_it_has(master: str, cores: int) -> None:
    assert local_cores(master) == cores


def test_a_cluster_gets_no_settings_that_belong_to_one_machine() -> None:
    config = session_config(Settings(spark_master="spark://host:7077"), cores=2)
    assert config["spark.master"] == "spark://host:7077"
    assert "spark.driver.host" not in config


def test_sparks_pages_are_off_unless_a_port_is_set_and_never_beside_a_cluster(tmp_path: Path) -> None:
    assert session_config(Settings(), cores=2)["spark.ui.enabled"] == "false"
    config = session_config(Settings(spark_ui_port=4040), cores=2)
    assert (config["spark.ui.enabled"], config["spark.ui.port"]) == ("true", "4040")
    beside = Settings(home=str(tmp_path), spark_ui_port=4040, spark_master="spark://host:7077")
    with pytest.raises(BraidError, match="unset one of the two"):
        spark_session(beside)


def test_an_empty_append_is_recorded_as_a_commit(spark, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    table = str(tmp_path / "table")
    spark.range(3).write.format("delta").save(table)
    spark.range(0).write.format("delta").mode("append").save(table)
    commits = list((tmp_path / "table" / "_delta_log").glob("*.json"))
    assert len(commits) == 2
    assert spark.read.format("delta").load(table).count() == 3


def test_rows_in_memory_are_all_there_when_a_part_of_them_is_empty(spark) -> None:  # type: ignore[no-untyped-def]
    """A file of which nothing passes a filter is such a part; Spark takes it for the end."""
    rows = pa.table({"n": list(range(100))})
    parts = pa.concat_tables([rows.slice(0, 40), rows.slice(0, 0), rows.slice(40)])
    assert from_arrow(spark, parts).count() == 100
    assert from_arrow(spark, rows.slice(0, 0)).count() == 0
