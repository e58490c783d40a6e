"""What MkDocs does besides its own: pages from outside docs/, and nothing fetched from elsewhere.

Pages are written to be read in the repository too, so they link to files next to docs/. Those that
are pages of the site as well become links within it; the others become the path alone.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]

ELSEWHERE = {
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "packages/kapilite/README.md": "project/kapilite.md",
    "packages/kapilite/docs/api-server.md": "explanation/api-server.md",
}
"""Pages of the site that lie elsewhere in the repository."""

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_FETCHED = re.compile(
    r"<(?:script|img|iframe|source|link)\b[^>]*\s(?:src|href)=[\"']?((?:https?:)?//[^\s\"'>]+)",
    re.IGNORECASE,
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, uri in ELSEWHERE.items():
        if (ROOT / path).exists():
            files.append(File.generated(config, uri, content=(ROOT / path).read_text()))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Links of a page as the site needs them."""
    places = {uri: path for path, uri in ELSEWHERE.items()}
    here = places.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def there(match: re.Match[str]) -> str:
        text, path, fragment = match[1], match[2], match[3] or ""
        if re.match(r"[a-z]+:", path):
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here), path))
        uri = ELSEWHERE.get(target, target.removeprefix("docs/"))
        if target.startswith("docs/") or target in ELSEWHERE:
            start = posixpath.dirname(page.file.src_uri) or "."
            return f"[{text}]({posixpath.relpath(uri, start)}{fragment})"
        if not (ROOT / target).exists():
            raise PluginError(f"{here}: no such file: {path}")
        return text if text.startswith("`") else f"{text} (`{target}`)"

    return _LINK.sub(there, markdown)


def on_post_page(output: str, *, page: Page, **_: object) -> str:
    """The page, unless a browser would fetch a part of it from elsewhere."""
    if found := _FETCHED.search(output):
        raise PluginError(f"{page.file.src_uri}: fetched from elsewhere: {found[1]}")
    return output
