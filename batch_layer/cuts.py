"""The cut of a run: the last closed epoch of all its sources, pinned once and the same for every task and retry."""

import json
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from urllib.parse import quote

from batch_layer.arrivals import closed_epoch
from braid.cut import common
from braid.define.source import Source
from braid.errors import BraidError, NotYet
from braid.log.table import Log
from braid.runtime import documents
from braid.runtime.settings import Settings
from braid.tables.view_tables import ViewTables


def closed_in_all(settings: Settings, sources: Iterable[Source]) -> datetime:
    """The last epoch that is closed in every log."""
    closed_upto = []
    for source in sources:
        closed = closed_epoch(Log(source, settings))
        if closed is None:
            raise NotYet(
                f"the log of source {source.name!r} is empty, so there is no cut yet: run `braid ingest {source.name}`."
            )
        closed_upto.append(closed)
    cut = common(closed_upto)
    if cut is None:
        raise BraidError(
            "there is no source to take a cut of: define one in the module that BRAID_DEFINITIONS names."
        )
    return cut


def cut_after(settings: Settings, sources: Iterable[Source], day: date) -> datetime:
    """The common cut, which must not be before the end of a day in any source's zone."""
    sources = tuple(sources)
    cut = closed_in_all(settings, sources)
    for source in sources:
        end = end_of(day, source)
        if cut + settings.epoch < end:
            raise NotYet(
                f"the day {day} of source {source.name!r} ends at {end.isoformat()}, and the log is closed up to "
                f"{(cut + settings.epoch).isoformat()}: wait until ingest is past the end of the day."
            )
    return cut


def pinned(settings: Settings, run: str, cut: datetime | None) -> datetime | None:
    """The cut of a run: the one that it was given first. None when it has none yet and none is given."""
    uri = settings.location("batch", "cuts", f"{quote(run, safe='')}.json")
    text = documents.read(uri)
    if text is not None:
        return datetime.fromisoformat(json.loads(text)["cut"])
    if cut is not None:
        documents.write(uri, json.dumps({"run": run, "cut": cut.isoformat()}) + "\n")
    return cut


def throughs(tables: ViewTables) -> dict[date, datetime]:
    """Day -> the last epoch that its published states cover, without Spark."""
    from braid.tables.in_database import opened

    with opened("base", tables.base) as database:
        if database is None:
            return {}
        rows = database.sql("SELECT day, max(through) FROM base GROUP BY day").fetchall()
    return {day: through.astimezone(UTC) for day, through in rows}


def end_of(day: date, source: Source) -> datetime:
    """The moment at which a day ends where the source is."""
    return datetime.combine(day + timedelta(days=1), time(), tzinfo=source.zone)
