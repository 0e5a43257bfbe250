"""The Data Docs: what the gates said last of each day, as a static site and as pages that are made when opened."""

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from batch_layer import days as records
from batch_layer.days import Gate
from braid.deploy import store as deployment
from braid.runtime import documents
from braid.runtime.lock import locked
from braid.runtime.settings import Settings
from braid.tables.view_tables import ViewTables

# Of each suite: days that failed first, then those with the newest cut. The days' own records keep all verdicts.
KEPT = 90
VALIDATION = "validation.json"


@dataclass(frozen=True)
class Audit:
    """What the gate of a source or a view, its suite, said of a day last."""

    suite: str
    day: date
    gate: Gate

    @property
    def page(self) -> str:
        return f"{_folder(self.suite)}/{self.day}"


def keep(settings: Settings, suite: str, validation: Mapping[str, Any] | None) -> None:
    """Stores what Great Expectations said of all days that were judged together, in the place of what was there."""
    if validation is not None:
        text = json.dumps({**validation, "suite_name": suite}, indent=1) + "\n"
        documents.write(f"{site(settings)}/{_folder(suite)}/{VALIDATION}", text)


def build(settings: Settings, all_days: bool = True) -> str:
    """Writes the index, and pages of days: of all that are kept, or of those that failed. The path of the index.

    A run writes the pages of the days that failed; the others are made when somebody asks for the site, or opens them.
    """
    root = site(settings)
    with _alone(settings):
        pages: set[str] = set()
        kept = {suite: _kept(suite, gates) for suite, gates in _recorded(settings).items()}
        for suite, audits in kept.items():
            pages |= _write_pages(root, suite, audits, all_days)
        documents.write(f"{root}/index.html", _index(kept, pages))
    return f"{root}/index.html"


def opened(settings: Settings, path: str) -> str | None:
    """A page of the site as it would be written now, for those who open it over HTTP; None when there is none."""
    recorded = _recorded(settings)
    if path in ("", "index.html"):
        kept = {suite: _kept(suite, gates) for suite, gates in recorded.items()}
        pages = {audit.page for audits in kept.values() for audit in audits}
        return _index(kept, pages) if pages else None
    folder, _, rest = path.partition("/")
    suite = next((name for name in recorded if _folder(name) == folder), None)
    if suite is None:
        return None
    if rest == VALIDATION:
        return documents.read(f"{site(settings)}/{folder}/{VALIDATION}")
    for day, gate in recorded[suite].items():
        if rest in (f"{day}/", f"{day}/index.html"):
            return _render("day.html", audit=Audit(suite, day, gate))
    return None


def site(settings: Settings) -> str:
    """Where the site is, once there is one."""
    return settings.location("quality", "data_docs")


def _recorded(settings: Settings) -> dict[str, Mapping[date, Gate]]:
    """Suite -> day -> its gate, of all sources and of the active versions of all views."""
    found: dict[str, Mapping[date, Gate]] = {
        f"source {name}": records.read_gates(settings, name)
        for name in documents.names(settings.location("batch", "gates"))
    }
    for name in documents.names(settings.location("views")):
        if active := deployment.load(settings, name).active:
            known = records.read_days(ViewTables.of(settings, active))
            found[f"view {name}"] = {day: one.gate for day, one in known.items() if one.gate is not None}
    return found


def _kept(suite: str, gates: Mapping[date, Gate]) -> list[Audit]:
    return _failed_first([Audit(suite, day, gate) for day, gate in gates.items()])[:KEPT]


def _index(kept: Mapping[str, list[Audit]], pages: set[str]) -> str:
    """All audits that are kept, with links to those of which there are pages."""
    ordered = _failed_first([audit for audits in kept.values() for audit in audits])
    return _render("index.html", audits=ordered, pages=pages)


def _failed_first(audits: list[Audit]) -> list[Audit]:
    newest_first = sorted(audits, key=lambda audit: (audit.gate.cut, audit.day), reverse=True)
    return sorted(newest_first, key=lambda audit: audit.gate.verdict.passed)


def _write_pages(root: str, suite: str, kept: list[Audit], all_days: bool) -> set[str]:
    """A page that is there is brought up to date, and one of a day that is no longer kept is removed."""
    folder = f"{root}/{_folder(suite)}"
    there = {name for name in documents.names(folder) if not name.endswith(".json")}
    for name in there - {audit.day.isoformat() for audit in kept}:
        documents.remove_folder(f"{folder}/{name}")
    written = {
        audit.page: audit
        for audit in kept
        if all_days or not audit.gate.verdict.passed or audit.day.isoformat() in there
    }
    for page, audit in written.items():
        documents.write(f"{root}/{page}/index.html", _render("day.html", audit=audit))
    return set(written)


def _render(template: str, **values: Any) -> str:
    return _templates().get_template(template).render(**values)


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("batch_layer.gates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip


def _folder(suite: str) -> str:
    return suite.replace(" ", "-")


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
