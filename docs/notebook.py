"""Runs docs/explore.ipynb from its first cell to its last: `python docs/notebook.py` renews what it shows."""

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent / "explore.ipynb"


def executed(folder: Path) -> Any:
    """The notebook with fresh results, from a kernel that was started in a folder."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, timeout=300, record_timing=False)
    return client.execute(cwd=str(folder))


def main() -> None:
    notebook = executed(NOTEBOOK.parent)
    # The version of this machine's Python is nobody's business.
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, NOTEBOOK)
    print(f"renewed {NOTEBOOK}", file=sys.stderr)


if __name__ == "__main__":
    main()
