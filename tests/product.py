"""The product's own modules, for tests of the house: which there are, and which import which."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("braid", "batch_layer", "speed_layer", "serving_layer", "infra", "examples", "bench", "dags")

# braid/ has a link to each, so that nothing general is installed at the top level.
LINKED = ("braid.infra", "braid.examples", "braid.dags")


@cache
def modules() -> dict[str, ast.Module]:
    """Path -> what is written there, of every module of the product."""
    found = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in found}


@cache
def importers() -> dict[str, set[str]]:
    """Module -> the modules that import it, wherever in their text."""
    found: dict[str, set[str]] = {path: set() for path in modules()}
    for path, tree in modules().items():
        for node in ast.walk(tree):
            for name in _imported(node):
                if (target := _path(name)) is not None and target != path:
                    found[target].add(path)
    return found


def _imported(node: ast.AST) -> list[str]:
    """Full names; of `from a import b` both that of a module b and that of a."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        inside = [f"{node.module}.{alias.name}" for alias in node.names]
        return [name if _path(name) else node.module for name in inside]
    return []


def _path(name: str) -> str | None:
    base = name.removeprefix("braid.") if name.startswith(LINKED) else name
    base = base.replace(".", "/")
    return next((path for path in (f"{base}.py", f"{base}/__init__.py") if path in modules()), None)
