"""The site: built without a warning, every page in its section, every link leads somewhere, nothing is fetched."""

import re
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest

from tests.documents import module_at
from tests.pages import ROOT, Content, build, content

DOCS = ROOT / "docs"
DRAWINGS = sorted((DOCS / "images").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Content]:
    folder = build(tmp_path_factory.mktemp("site"))
    return {page: content(page) for page in sorted(folder.rglob("*.html"))}


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    return module_at("hooks")


def broken(pages: dict[Path, Content]) -> list[str]:
    """Links within the site that lead to no file, or to no place in it."""
    complaints = []
    for page, found in pages.items():
        for link in found.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = (page.parent / unquote(address.path)).resolve() if address.path else page
            places = pages[target].ids if target in pages else [unquote(address.fragment)]
            if not target.is_file() or (address.fragment and unquote(address.fragment) not in places):
                complaints.append(f"{page.name}: {link}")
    return complaints


def test_every_page_is_built(site: dict[Path, Content]) -> None:
    folder = Path(next(page for page in site if page.name == "404.html")).parent
    for page in DOCS.rglob("*.md"):
        assert folder / page.relative_to(DOCS).with_suffix(".html") in site


def test_every_link_of_the_site_leads_somewhere(site: dict[Path, Content]) -> None:
    # The page for wrong addresses is shown at any depth, so that its links are from the root of a server.
    assert broken({page: found for page, found in site.items() if page.name != "404.html"}) == []


def test_a_broken_link_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "one.html"
    page.write_text('<p id="here"><a href="#here"></a><a href="#there"></a><a href="two.html"></a>')
    assert broken({page: content(page)}) == ["one.html: #there", "one.html: two.html"]


def test_links_to_other_hosts_are_written_as_addresses(site: dict[Path, Content]) -> None:
    """Whether they answer is not asked: tests need no network."""
    for page, found in site.items():
        for link in found.links:
            address = urlsplit(link)
            if address.scheme:
                assert address.scheme in ("http", "https"), f"{page.name}: {link}"
                assert re.fullmatch(r"[\w.-]+(:\d+)?", address.netloc), f"{page.name}: {link}"


def test_a_page_loads_nothing_from_another_host(site: dict[Path, Content]) -> None:
    for page, found in site.items():
        assert [each for each in found.loaded if urlsplit(each).netloc] == [], page.name


def test_no_id_is_on_a_page_twice(site: dict[Path, Content]) -> None:
    for page, found in site.items():
        assert sorted(found.ids) == sorted(set(found.ids)), page.name


def test_drawings_are_in_the_page_and_not_beside_it(site: dict[Path, Content]) -> None:
    for page, found in site.items():
        assert [each for each in found.loaded if "images/" in each and each.endswith(".svg")] == [], page.name


def test_pages_are_sorted_into_sections_in_the_order_of_the_index(hooks: ModuleType) -> None:
    last, second, first = "how-to/zebra.md", "how-to/read-a-view.md", "how-to/write-a-definition.md"
    own = "how-to/index.md"
    found = hooks.navigation(["index.md", last, second, own, first])
    assert found == [{"Braid": "index.md"}, {"How to": [own, first, second, last]}]


def test_a_page_that_belongs_nowhere_is_found_all_the_same(hooks: ModuleType) -> None:
    found = hooks.navigation(["index.md", "stray.md", "adr/008-boundaries.md"])
    assert found[1:] == [{"More": ["stray.md"]}, {"Decisions": ["adr/008-boundaries.md"]}]


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda path: path.name)
def test_a_drawing_says_what_it_shows(drawing: Path) -> None:
    root = ElementTree.parse(drawing).getroot()
    assert root.get("role") == "img"
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert description is not None
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert len(description.text or "") > 80
    identifiers = [each.get("id") for each in root.iter() if each.get("id")]
    assert all(str(each).startswith(drawing.stem) for each in identifiers), "drawings share a page"


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda path: path.name)
def test_a_drawing_has_the_style_of_all_and_fetches_nothing(drawing: Path) -> None:
    text = drawing.read_text(encoding="utf-8")
    styles = re.findall(r"<style.*?</style>", text, re.DOTALL)
    assert styles == re.findall(r"<style.*?</style>", DRAWINGS[0].read_text(encoding="utf-8"), re.DOTALL)
    assert len(styles) == 2
    assert not re.search(r"(href|src)=\"(?!#)|url\((?!#)|@import|<script|<foreignObject", text)


def test_a_drawing_has_the_colours_of_the_site() -> None:
    """The site replaces the colours of a drawing by its own: the same names, all of them."""
    colours = re.findall(r"<style>.*?</style>", DRAWINGS[0].read_text(encoding="utf-8"), re.DOTALL)[0]
    sheet = (DOCS / "assets" / "site.css").read_text(encoding="utf-8")
    for scheme in ("default", "slate"):
        rule = sheet.split(f'[data-md-color-scheme="{scheme}"] .drawing {{')[1].split("}")[0]
        named = set(re.findall(r"(--[\w-]+): (#\w+)", rule))
        assert named
        assert named <= set(re.findall(r"(--[\w-]+): (#\w+)", colours))
