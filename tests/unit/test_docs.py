"""The documentation: its links lead somewhere, and it names all that it must."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from laneway.cli import cli
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


def test_every_test_that_the_vsphere_page_names_exists() -> None:
    assert len(PROVEN) > 30
    tests = {
        name
        for path in ROOT.glob("tests/**/*.py")
        for name in re.findall(r"^\s*(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE)
    }
    assert not set(PROVEN) - tests


def typed_commands() -> list[str]:
    """Every `laneway …` that stands in a block or, with an argument, in a line of a page."""
    found = []
    for page in PAGES:
        made = {"reference", "terraform"}.intersection(page.relative_to(ROOT).parts)
        if page.name == "CHANGELOG.md" or made:
            continue
        text = page.read_text()
        blocks = "\n".join(_FENCED.findall(text)).replace("\\\n", " ")
        found += re.findall(r"^ *(?:\$ |sudo )*(laneway [^|>;&#\n]*)", blocks, re.MULTILINE)
        found += re.findall(r"`(laneway [^`|]*)`", _FENCED.sub("", text))
    return sorted({" ".join(one.split()) for one in found})


@pytest.mark.parametrize("typed", typed_commands())
def test_every_command_and_option_exists(typed: str) -> None:
    _, *words = shlex.split(typed.replace("…", ""))
    context = click.Context(cli, info_name="laneway")
    command: click.Command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        if words[0] == "COMMAND":
            return
        found = command.get_command(context, words.pop(0))
        assert found is not None, typed
        command, context = found, click.Context(found, parent=context, info_name=found.name)
    if not isinstance(command, click.Group):
        options = [one for one in words if one.startswith("-") and one != "--help"]
        known = {
            name for one in command.get_params(context) for name in (*one.opts, *one.secondary_opts)
        }
        assert [one for one in options if one.partition("=")[0] not in known] == []
