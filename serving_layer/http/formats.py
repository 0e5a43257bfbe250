"""An answer as JSON, CSV or an Arrow stream, whichever the reader accepts first."""

import csv
import io
from collections.abc import Callable

import pyarrow as pa
from fastapi import Response
from fastapi.responses import JSONResponse

from serving_layer.answer.answers import Answer, document, shown
from serving_layer.answer.json_values import plain_rows
from serving_layer.http.problems import Refused

JSON, CSV, ARROW = "application/json", "text/csv", "application/vnd.apache.arrow.stream"


def rendered(given: Answer, accept: str, parts: bool = False) -> Response:
    forms: dict[str, Callable[[Answer, bool], Response]] = {JSON: _json, CSV: _csv, ARROW: _arrow}
    return forms[chosen(accept)](given, parts)


def chosen(accept: str) -> str:
    """The form that the reader likes best; of those that it likes equally, the first one here."""
    wishes = [_wish(part) for part in accept.split(",") if part.strip()] or [("*/*", 1.0)]
    ranked = []
    for place, form in enumerate((JSON, CSV, ARROW)):
        group = form.partition("/")[0]
        # The more exact a wish, the more it counts: "text/csv;q=0, */*" is everything but CSV.
        for pattern in (form, f"{group}/*", "*/*"):
            found = [quality for media, quality in wishes if media == pattern]
            if found:
                if found[0] > 0:
                    ranked.append((-found[0], place, form))
                break
    if not ranked:
        raise Refused(406, f"Accept {accept!r} is none of {JSON}, {CSV} and {ARROW}.", "Accept")
    return min(ranked)[2]


def _wish(part: str) -> tuple[str, float]:
    media, _, rest = part.strip().partition(";")
    quality = 1.0
    for parameter in rest.split(";"):
        name, _, value = parameter.strip().partition("=")
        if name == "q":
            try:
                quality = float(value)
            except ValueError:
                quality = 0.0
    return media.strip().lower(), quality


def _json(given: Answer, parts: bool) -> Response:
    return JSONResponse(document(given, parts))


def _csv(given: Answer, parts: bool) -> Response:
    rows = shown(given, parts)
    text = io.StringIO()
    writer = csv.DictWriter(text, rows.column_names)
    writer.writeheader()
    writer.writerows(plain_rows(rows, given.version.view.source.zone))
    return Response(text.getvalue(), media_type=f"{CSV}; charset=utf-8", headers=_total(given))


def _arrow(given: Answer, parts: bool) -> Response:
    rows, sink = shown(given, parts), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return Response(sink.getvalue().to_pybytes(), media_type=ARROW, headers=_total(given))


def _total(given: Answer) -> dict[str, str]:
    """What JSON says beside the rows."""
    return {"X-Total-Rows": str(given.total), "X-View-Version": str(given.version.number)}
