"""Runs docs/explore.ipynb from its first cell to its last: `python docs/notebook.py` renews what it shows."""

import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

NOTEBOOK = Path(__file__).parent / "explore.ipynb"


def executed(folder: Path) -> Any:
    """The notebook with fresh results, from a kernel that was started in a folder."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    # Its kernel is spoken to through files of this user, not through ports of this machine.
    with tempfile.TemporaryDirectory(prefix="kernel-") as sockets:
        local = Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/kernel"}})
        client = NotebookClient(notebook, timeout=300, startup_timeout=300, record_timing=False, config=local)
        notebook = client.execute(cwd=str(folder))
    for cell in notebook.cells:
        # What the JVM says when it starts is not the notebook's.
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
    return notebook


def main() -> None:
    notebook = executed(NOTEBOOK.parent)
    # The version of this machine's Python is nobody's business.
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, NOTEBOOK)
    print(f"renewed {NOTEBOOK}", file=sys.stderr)


if __name__ == "__main__":
    main()
