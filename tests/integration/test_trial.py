"""`braid test`: a file of events through parsing, first copies and a view, against a naive truth."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from braid.define.loading import load_definitions
from braid.project.sample import from_file
from braid.project.scaffold import Origin, project, write
from braid.project.trial import in_folder, trials
from braid.runtime.settings import Settings
from speed_layer.ingest.trial import try_out
from tests.conftest import Answer

SALES = """Id,When,City,Price
1,2024-01-01 10:00:00,Oslo,1.50
2,2024-01-01 11:00:00,Oslo,2.25
3,2024-01-02 10:00:00,Rome,
"""


@pytest.mark.usefixtures("spark")
def test_the_project_that_init_writes_agrees_with_its_naive_truth_and_a_wrong_truth_is_said(
    home: Path, braid: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert braid("init").code == 0
    answer = braid("test", "--json")
    assert answer.code == 0, answer.err
    (tried,) = json.loads(answer.out)
    assert (tried["ok"], tried["found"], tried["events"], tried["duplicates"]) == (True, "4 rows equal", 4, 1)
    assert tried["rejected"] == {"wrong type: amount is not decimal(18,2)": 1}
    assert not home.exists()

    wrong = Path("tests/orders_per_day.py")
    wrong.write_text(wrong.read_text().replace('row["events"] += 1', 'row["events"] += 2'))
    answer = braid("test")
    assert answer.code == 1
    assert "differ in tests/orders_per_day.py" in answer.err
    wrong.unlink()
    answer = braid("test")
    assert answer.code == 2
    assert "there are no tests" in answer.err


def test_so_does_one_that_begins_with_a_csv_file_and_numbers_that_are_missing(
    spark: Any, tmp_path: Path
) -> None:
    (tmp_path / "sales.csv").write_text(SALES)
    files, _ = project(Origin("sales", files=str(tmp_path / "sales.csv")), from_file(tmp_path / "sales.csv"))
    write(tmp_path, files)
    (trial,) = trials(load_definitions(str(tmp_path / "definitions.py")), in_folder(tmp_path / "tests"))
    found = try_out(spark, Settings(home=str(tmp_path / "home")), trial.view, trial.events)
    assert found.rows == trial.expected(found.events)
    assert sorted(row["total"] is None for row in found.rows.values()) == [False, True]
