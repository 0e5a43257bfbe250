"""The notebook: it runs from the first cell to the last, and shows what it showed when it was written."""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.documents import module_at

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOK = DOCS / "explore.ipynb"
SMALL = 64 << 10


def shown(notebook: Any) -> list[list[Any]]:
    """What each cell of code has for its reader: texts and charts, not their decoration."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [[_content(output) for output in cell.outputs] for cell in cells]


def _content(output: Any) -> Any:
    if output.output_type == "stream":
        return output.text
    data = output.data
    return data.get("application/vnd.plotly.v1+json") or data["text/plain"]


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The notebook, run in a kernel of its own."""
    monkeypatch.setenv("BRAID_SPARK_MASTER", "local[2]")
    monkeypatch.setenv("BRAID_SPARK_MEMORY", "1g")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    runner = module_at("notebook")
    return runner.executed(tmp_path)


@pytest.mark.soak
def test_the_notebook_shows_what_it_computes(fresh: Any, tmp_path: Path) -> None:
    kept = nbformat.read(NOTEBOOK, as_version=4)
    assert json.loads(json.dumps(shown(fresh))) == shown(kept), "`python docs/notebook.py` renews it"
    assert list(tmp_path.glob("braid-explore-*")) == [], "it leaves nothing behind"


def test_the_notebook_is_small_and_valid() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert NOTEBOOK.stat().st_size < SMALL
    assert any(shown(notebook)), "what its reader sees first are its results"
