"""The site in a browser, opened as files: legible on a screen and a telephone, searchable, and alone on the network."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.pages import build

PAGES = ("index", "tutorial", "concepts", "lambda-or-kappa", "explore", "reference/settings", "adr/index")
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("site"))


@pytest.fixture
def pages(browser: Browser, folder: Path) -> Iterator[Open]:
    """Opens a page of the site; what is asked of a host, or complained about, fails any test."""
    contexts = []
    trouble: list[str] = []

    def open_page(name: str, width: int = 1440, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda asked: None if asked.url.startswith("file:") else trouble.append(asked.url))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on(
            "console", lambda said: trouble.append(said.text) if said.type in ("error", "warning") else None
        )
        page.goto(f"file://{folder}/{name}.html")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert trouble == []


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_screen(pages: Open, name: str, width: int) -> None:
    page = pages(name, width)
    expect(page.locator("h1")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_drawings_follow_the_colours_of_the_page(pages: Open, scheme: str) -> None:
    page = pages("concepts", color_scheme=scheme)
    ink = "getComputedStyle(document.querySelector('.drawing text')).fill"
    paper = "getComputedStyle(document.body).backgroundColor"
    contrast = abs(brightness(page.evaluate(ink)) - brightness(page.evaluate(paper)))
    assert contrast > 120
    assert (brightness(page.evaluate(paper)) > 128) == (scheme == "light")
    page.locator("label[for^=__palette_]:visible").click()
    expect(page.locator("body")).to_have_attribute(
        "data-md-color-scheme", "slate" if scheme == "light" else "default"
    )
    assert (brightness(page.evaluate(paper)) > 128) != (scheme == "light")
    assert abs(brightness(page.evaluate(ink)) - brightness(page.evaluate(paper))) > 120


def test_charts_of_the_notebook_are_drawn(pages: Open) -> None:
    page = pages("explore", 390)
    expect(page.locator(".chart .bars .point").first).to_be_visible()
    assert page.locator(".chart .main-svg").count() >= 2


def brightness(colour: str) -> float:
    """Of "rgb(1, 2, 3)", from 0 to 255."""
    red, green, blue = (float(each) for each in colour.split("(")[1].rstrip(")").split(",")[:3])
    return 0.3 * red + 0.6 * green + 0.1 * blue


def test_pages_can_be_searched_without_a_server(pages: Open) -> None:
    page = pages("index")
    page.locator("input[name=query]").click()
    page.keyboard.type("conservation")
    expect(page.locator(".md-search-result__link").first).to_be_visible()
    expect(page.locator(".md-search-result__meta")).to_contain_text("matching documents")
