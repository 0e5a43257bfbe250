"""What the site needs beyond its pages: sections by kind, drawings within the page, sources that pages link to.

MkDocs calls the functions that are named `on_...`; mkdocs.yml names this file.
"""

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mkdocs.structure.files import File, Files, InclusionLevel
from plotly.offline import get_plotlyjs

ROOT = Path(__file__).parents[1]
# A link to something of the repository that is not below docs/, as seen from a page: its source is shown instead.
LINK = re.compile(r"(?P<open>\]\()(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?P<close>\))")
DRAWING = re.compile(r'<img alt="(?P<alt>[^"]*)" src="(?P<source>[^"]*images/(?P<name>[\w-]+)\.svg)"\s*/?>')
COLOURS = re.compile(r"<style>.*?</style>\s*", re.DOTALL)
LANGUAGES = {
    ".py": "python",
    ".toml": "toml",
    ".yml": "yaml",
    ".yaml": "yaml",
    ".sh": "bash",
    ".java": "java",
}


class Section(NamedTuple):
    """A tab of the site: the pages at the top that belong to it, in order, and the folder whose pages all do."""

    title: str
    pages: tuple[str, ...]
    folder: str


SECTIONS = (
    Section("Tutorial", ("tutorial.md", "explore.md"), "tutorial"),
    Section(
        "Concepts",
        ("concepts.md", "map.md", "simulation.md", "lambda-or-kappa.md", "glossary.md"),
        "concepts",
    ),
    Section("How to", (), "how-to"),
    Section("Examples", (), "examples"),
    Section("Reference", (), "reference"),
    Section("Operations", ("operations.md", "security.md"), "operations"),
    Section("Decisions", (), "adr"),
)


def on_files(files: Files, config: Any) -> Files:
    """Adds the sources that pages link to, then sorts all pages into sections."""
    named = {path for file in files.documentation_pages() for path in sources(file)}
    for path in sorted(named):
        shown = File.generated(config, _page_of(path), content=_listing(path))
        # Pages link to it; it is in no section.
        shown.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(shown)
    files.append(File.generated(config, "explore.md", content=notebook_page(ROOT / "docs" / "explore.ipynb")))
    files.append(File.generated(config, "assets/plotly.min.js", content=get_plotlyjs()))
    config.nav = navigation(
        [file.src_uri for file in files.documentation_pages() if file.inclusion.is_in_nav()]
    )
    return files


def sources(file: File) -> Iterator[str]:
    """What a page links to outside docs/, by its path in the repository."""
    for link in LINK.finditer(file.content_string):
        if path := _outside(file.src_uri, link["target"]):
            yield path


def _outside(page: str, target: str) -> str | None:
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return None if path.startswith(("docs/", "..")) or not (ROOT / path).exists() else path


def _page_of(path: str) -> str:
    return f"sources/{path}.md"


def _listing(path: str) -> str:
    """The page of a file is its text; that of a folder, the names of what is in it."""
    found = ROOT / path
    if found.is_dir():
        names = sorted(each.relative_to(found).as_posix() for each in found.rglob("*") if _is_source(each))
        return f"# {path}\n\n````text\n" + "\n".join(names) + "\n````\n"
    return f"# {path}\n\n````{LANGUAGES.get(found.suffix, 'text')}\n{found.read_text(encoding='utf-8')}````\n"


def _is_source(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def navigation(pages: list[str]) -> list[dict[str, Any]]:
    """Every page in its section. Within a folder, in the order of the index; what it leaves out comes last, by name."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    places = {link["target"]: place for place, link in enumerate(LINK.finditer(index))}
    left = set(pages) - {"index.md"}
    found: list[dict[str, Any]] = [{"Braid": "index.md"}]
    for section in SECTIONS:
        inside = [page for page in left if page.startswith(f"{section.folder}/")]
        # A folder's own index comes first, and is what its tab opens.
        inside.sort(key=lambda page: (not page.endswith("/index.md"), places.get(page, len(places)), page))
        chosen = [page for page in section.pages if page in left] + inside
        left -= set(chosen)
        if chosen:
            found.append({section.title: chosen})
    # What nobody has thought of yet is found all the same.
    if left:
        found.insert(-1, {"More": sorted(left)})
    return found


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lets links out of docs/ lead to the page that shows the source, and those to the notebook to its page."""
    here = posixpath.dirname(page.file.src_uri)
    markdown = markdown.replace("explore.ipynb)", "explore.md)")

    def moved(link: re.Match[str]) -> str:
        path = _outside(page.file.src_uri, link["target"])
        if path is None:
            return link[0]
        return f"{link['open']}{posixpath.relpath(_page_of(path), here or '.')}{link['close']}"

    return LINK.sub(moved, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Puts drawings into the page, where they follow its colours. Elsewhere they follow those of the machine."""
    return DRAWING.sub(lambda image: drawing(image["name"]), html)


def drawing(name: str) -> str:
    """A drawing without its own colours: the site has the same, and knows whether it is light or dark."""
    text = (ROOT / "docs" / "images" / f"{name}.svg").read_text(encoding="utf-8")
    return f'<div class="frame">{COLOURS.sub("", text, count=1)}</div>'


def notebook_page(path: Path) -> str:
    """A notebook as a page: its text, its code, and what that had shown. Charts are drawn by plotly's own script."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = [part for cell in cells for part in _cell(cell)]
    scripts = [f'<script src="assets/{name}"></script>' for name in ("plotly.min.js", "charts.js")]
    return "\n\n".join([*parts, *scripts]) + "\n"


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield text
        return
    yield f"```python\n{text}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {})
        if chart := data.get("application/vnd.plotly.v1+json"):
            # Within a script element, "</" would end it.
            figure = json.dumps({"data": chart["data"], "layout": chart["layout"]}).replace("</", "<\\/")
            yield f'<div class="chart"><script type="application/json">{figure}</script></div>'
        else:
            yield f"```text\n{''.join(data.get('text/plain') or output.get('text', []))}\n```"
