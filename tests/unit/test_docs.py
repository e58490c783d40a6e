"""The documentation: its links lead somewhere, and what it promises to name is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from laneway.sim.models import ABOUT, MODELS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "charts/**/*.md", "packages/*/**/*.md", "rig/*.md")
    for path in ROOT.glob(pattern)
)
_FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def links(page: Path) -> list[str]:
    text = _FENCED.sub("", page.read_text())
    return [one for one in _LINK.findall(text) if not re.match(r"[a-z]+:", one)]


def anchors(page: Path) -> set[str]:
    """What headings are called in links, as GitHub and the site call them."""
    text = _FENCED.sub("", page.read_text())
    titles = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", one) for one in _HEADING.findall(text))
    named = {re.sub(r"[^\w\- ]", "", one.lower()).strip().replace(" ", "-") for one in titles}
    return named | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if fragment and target.suffix == ".md":
            assert fragment in anchors(target), link


def test_every_page_is_in_the_site() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = [str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")]
    assert [page for page in pages if not re.search(rf"[:-] {re.escape(page)}\n", navigation)] == []


def test_every_model_is_described() -> None:
    assert set(ABOUT) == set(MODELS)


PROVEN = re.findall(r"`(test_\w+)`", (DOCS / "explanation/vsphere.md").read_text())


def test_every_test_that_proves_a_promise_for_vsphere_is_there() -> None:
    assert len(PROVEN) > 30
    tests = {
        name
        for path in ROOT.glob("tests/**/*.py")
        for name in re.findall(r"^\s*(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE)
    }
    assert not set(PROVEN) - tests
