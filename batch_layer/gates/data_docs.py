"""The Data Docs: a static site of what the gates said, one page for each audited day, that loads nothing from afar."""

import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from batch_layer.gates.data_docs_style import STYLE
from batch_layer.gates.values import Verdict
from braid.runtime.lock import locked
from braid.runtime.settings import Settings
from braid.tables import documents

# Of each suite: days that failed first, then those that were audited last. The days' own records keep all verdicts.
KEPT = 90

_HEAD = f'<meta charset="UTF-8"><meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
# The page as Great Expectations renders it fetches scripts, styles and a picture from six hosts, tells one of them
# the project's id, and links to pages of a site that is not built here.
_REPLACED = tuple(
    (re.compile(pattern, re.DOTALL), replacement)
    for pattern, replacement in (
        (r"<script.*?</script>|<style.*?</style>|<link\b[^>]*>|<img\b[^>]*>|<footer>.*?</footer>", ""),
        (r'<a href="[^"]*expectations/[^"]*"\s*>(.*?)</a>', r"\1"),
        (r'href="[./]*index\.html"', 'href="../../index.html"'),
        (r"<head>.*?</head>", f"<head><title>Data Docs</title>{_HEAD}</head>"),
    )
)


@dataclass(frozen=True)
class Audit:
    """What was judged, and how."""

    suite: str
    day: date
    cut: datetime
    verdict: Verdict


def keep(settings: Settings, audit: Audit, validation: dict[str, Any], page: str) -> None:
    """Stores the result of an audit and its page, in the place of what was said of that day before."""
    folder = f"{site(settings)}/{_folder(audit.suite)}/{audit.day.isoformat()}"
    result = {
        "suite": audit.suite,
        "day": audit.day.isoformat(),
        "cut": audit.cut.isoformat(),
        "at": datetime.now(UTC).isoformat(),
        "verdict": audit.verdict.to_json(),
        "validation": validation,
    }
    for pattern, replacement in _REPLACED:
        page = pattern.sub(replacement, page)
    with _alone(settings):
        documents.write(f"{folder}/index.html", page)
        documents.write(f"{folder}/result.json", json.dumps(result, indent=1) + "\n")


def build(settings: Settings) -> str:
    """Writes the index of all audited days, and removes pages that are no longer kept; the path of index.html."""
    root = site(settings)
    with _alone(settings):
        results = []
        for _, of_suite in groupby(_results(root), key=lambda result: result["suite"]):
            ordered = _failed_first(of_suite)
            results += ordered[:KEPT]
            for result in ordered[KEPT:]:
                documents.remove_folder(f"{root}/{_page(result)}")
        documents.write(f"{root}/index.html", _index(_failed_first(results)))
    return f"{root}/index.html"


def _failed_first(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    newest_first = sorted(results, key=lambda result: result["at"], reverse=True)
    return sorted(newest_first, key=lambda result: result["verdict"]["passed"])


def _index(results: list[dict[str, Any]]) -> str:
    rows = "".join(map(_row, results)) or '<tr><td colspan="5">No day has been audited yet.</td></tr>'
    names = ("", "day", "of", "up to the cut", "what the gates said")
    head = "".join(f"<th>{name}</th>" for name in names)
    return (
        f"<!DOCTYPE html><html><head><title>Data Docs</title>{_HEAD}</head><body><h1>Data Docs</h1>"
        "<p>What the quality gates said of each day, when it was audited last.</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></body></html>\n"
    )


def _row(result: dict[str, Any]) -> str:
    verdict = Verdict.from_json(result["verdict"])
    mark = "fa-check-circle" if verdict.passed else "fa-times"
    return (
        f'<tr><td><i class="{mark}"></i></td><td><a href="{_page(result)}/index.html">{escape(result["day"])}</a></td>'
        f"<td>{escape(result['suite'])}</td><td>{escape(result['cut'])}</td><td>{escape(verdict.says())}</td></tr>"
    )


def _results(root: str) -> Iterator[dict[str, Any]]:
    for suite in documents.names(root):
        if not suite.endswith(".html"):
            for day in documents.names(f"{root}/{suite}"):
                text = documents.read(f"{root}/{suite}/{day}/result.json")
                if text is not None:
                    yield json.loads(text)


def _page(result: dict[str, Any]) -> str:
    return f"{_folder(result['suite'])}/{result['day']}"


def _folder(suite: str) -> str:
    return suite.replace(" ", "-")


def site(settings: Settings) -> str:
    """Where the site is, once there is one."""
    return settings.location("quality", "data_docs")


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """One writer at a time on a machine; on a shared home an index may miss a day until the next one is built."""
    if settings.home_is_local:
        file = settings.local_home() / "quality" / ".lock"
    else:
        known_as = hashlib.sha256(settings.home.encode()).hexdigest()[:12]
        file = Path(tempfile.gettempdir()) / f"braid-quality-{known_as}.lock"
    with locked(file):
        yield
