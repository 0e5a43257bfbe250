"""Where the batch layer notes what it did with each day of a view, and the cuts that it published days at."""

import json
from datetime import date, datetime

from braid.tables import documents
from braid.tables.view_tables import ViewTables


def day_document(tables: ViewTables, day: date) -> str:
    return f"{tables.folder}/days/{day.isoformat()}.json"


def noted_days(tables: ViewTables) -> list[date]:
    """All days of which something was noted."""
    names = documents.names(f"{tables.folder}/days")
    return [date.fromisoformat(name.removesuffix(".json")) for name in names]


def published_cuts(tables: ViewTables) -> dict[date, datetime]:
    """Day -> the cut at which the batch layer published it last."""
    found = {}
    for day in noted_days(tables):
        text = documents.read(day_document(tables, day))
        publish = json.loads(text)["publish"] if text is not None else None
        if publish is not None:
            found[day] = datetime.fromisoformat(publish["cut"])
    return found
