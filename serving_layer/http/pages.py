"""The dashboard and the API's document as pages: our own files, and scripts that pinned packages ship."""

from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse
from fastapi.staticfiles import StaticFiles

PAGE = Path(__file__).parents[1] / "page"


def add_pages(app: FastAPI, data_docs: Path | None) -> None:
    swagger = Path(str(files("fastapi_swagger") / "resources"))
    assets: Mapping[str, Path] = {
        "plotly.min.js": Path(str(files("plotly") / "package_data" / "plotly.min.js")),
        "swagger-ui-bundle.js": swagger / "swagger-ui-bundle.js",
        "swagger-ui.css": swagger / "swagger-ui.css",
    }

    @app.get("/", include_in_schema=False)
    async def dashboard() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse((PAGE / "docs.html").read_text())

    for name, path in assets.items():
        app.add_route(f"/assets/{name}", partial(_packaged, path), include_in_schema=False)
    app.mount("/assets", StaticFiles(directory=PAGE), name="assets")
    if data_docs is not None:
        app.mount(
            "/data-docs", StaticFiles(directory=data_docs, html=True, check_dir=False), name="data-docs"
        )


async def _packaged(path: Path, _: Request) -> FileResponse:
    """A script that a pinned package ships: it changes only with the package."""
    return FileResponse(path, headers={"Cache-Control": "max-age=3600"})
