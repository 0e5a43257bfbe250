"""Errors of the API as RFC 9457 problem details: what was wrong, with which parameter, and what to do next."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from braid.errors import BraidError
from serving_layer.answer.request import RequestError
from serving_layer.memory.all_views import NotDeployed, UnknownView

MEDIA_TYPE = "application/problem+json"
SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "parameter": {"type": "string"},
    },
}
TITLES = {
    400: "The question cannot be asked like this",
    401: "A token is needed",
    404: "There is no such thing",
    405: "This cannot be done here",
    406: "The answer does not come in this form",
    413: "The answer would be too large",
    429: "Too many at a time",
    421: "This server does not answer to that name",
    500: "Braid has a defect",
    503: "Not now",
}


class Refused(Exception):
    """An answer that is a problem."""

    def __init__(self, status: int, detail: str, parameter: str | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.parameter = status, detail, parameter


def problem(status: int, detail: str, parameter: str | None = None) -> JSONResponse:
    title = TITLES.get(status, "This cannot be answered")
    content: dict[str, Any] = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    if parameter is not None:
        content["parameter"] = parameter
    headers = {"Retry-After": "1"} if status in (429, 503) else {}
    return JSONResponse(content, status, headers, MEDIA_TYPE)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route may answer beside its answer, for the OpenAPI document."""
    return {
        status: {"description": TITLES[status], "content": {MEDIA_TYPE: {"schema": SCHEMA}}}
        for status in statuses
    }


def install(app: FastAPI) -> None:
    """Every error leaves as a problem, also those that the framework finds."""

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> JSONResponse:
        return problem(error.status, error.detail, error.parameter)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        name = str(first["loc"][-1])
        return problem(400, f"{name} {first.get('input')!r} is not possible: {first['msg']}.", name)

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        details = {404: "there is nothing at this address: /docs shows what there is.", 405: "use GET."}
        return problem(error.status_code, details.get(error.status_code, str(error.detail)))

    @app.exception_handler(BraidError)
    async def ours(_: Request, error: BraidError) -> JSONResponse:
        if isinstance(error, RequestError):
            return problem(400, str(error), error.parameter)
        if isinstance(error, UnknownView):
            return problem(404, str(error), "view")
        return problem(503 if isinstance(error, NotDeployed) else 400, str(error))
