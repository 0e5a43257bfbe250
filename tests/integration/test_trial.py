"""`braid test`: a file of events through parsing, first copies and a view, against a naive truth."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from braid.define.loading import load_definitions
from braid.errors import BraidError
from braid.project.sample import from_file
from braid.project.scaffold import Origin, made_up, project, write
from braid.project.trial import Trial, trials
from braid.runtime.settings import Settings
from speed_layer.ingest.trial import Tried, try_out
from tests.conftest import Answer

SALES = """Id,When,City,Price
1,2024-01-01 10:00:00,Oslo,1.50
2,2024-01-01 11:00:00,Oslo,2.25
3,2024-01-02 10:00:00,Rome,
"""


@pytest.fixture
def tried(spark: Any, tmp_path: Path) -> Callable[..., tuple[Tried, Trial]]:
    def run(origin: Origin, sample: Any) -> tuple[Tried, Trial]:
        files, _ = project(origin, sample)
        write(tmp_path, files)
        definitions = load_definitions(str(tmp_path / "definitions.py"))
        (trial,) = trials(definitions, sorted((tmp_path / "tests").glob("*.py")))
        return try_out(spark, Settings(home=str(tmp_path / "home")), trial.view, trial.events), trial

    return run


def test_the_project_that_init_writes_agrees_with_its_naive_truth(
    tried: Callable[..., tuple[Tried, Trial]], tmp_path: Path
) -> None:
    found, trial = tried(Origin("orders", topic="orders"), made_up())
    assert found.rows == trial.expected(found.events)
    assert len(found.rows) == 4
    assert (len(found.events), found.duplicates) == (4, 1)
    assert found.rejected == {"wrong type: amount is not decimal(18,2)": 1}
    assert not (tmp_path / "home").exists()


def test_so_does_one_that_begins_with_a_csv_file_and_numbers_that_are_missing(
    tried: Callable[..., tuple[Tried, Trial]], tmp_path: Path
) -> None:
    (tmp_path / "sales.csv").write_text(SALES)
    found, trial = tried(
        Origin("sales", files=str(tmp_path / "sales.csv")), from_file(tmp_path / "sales.csv")
    )
    assert found.rows == trial.expected(found.events)
    assert sorted(row["total"] is None for row in found.rows.values()) == [False, True]


def test_the_command_says_what_differs_and_exits_with_1(
    spark: Any, braid: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert braid("init").code == 0
    assert braid("test").code == 0
    wrong = Path("tests/orders_per_day.py")
    wrong.write_text(wrong.read_text().replace('row["events"] += 1', 'row["events"] += 2'))
    answer = braid("test")
    assert answer.code == 1
    assert "differ in tests/orders_per_day.py" in answer.err
    wrong.unlink()
    answer = braid("test")
    assert answer.code == 2
    assert "there are no tests" in answer.err


def test_a_view_whose_truth_is_wrong_is_named(tmp_path: Path) -> None:
    files, _ = project(Origin("orders", topic="orders"), made_up())
    write(tmp_path, files)
    with pytest.raises(BraidError, match="is not a file"):
        trials(load_definitions(str(tmp_path / "definitions.py")), [tmp_path / "none.py"])
