"""Templates, and the texts that they show.

Everything that comes from objects is escaped. All texts of the interface stand in one catalogue,
by ids that name the page and the place; a translation is another file with the same ids.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from laneway.web.place import link

PACKAGE = "laneway.web"
LIVE = "live_"
"""Blocks of a template with such names are drawn again after changes."""

COMPONENTS = "macros/ui.html"

_MACROS = "macros/"
_PARENT = re.compile(r'\s*{%-?\s*extends\s+"([^"]+)"')


class Texts:
    """A catalogue of texts in one language."""

    def __init__(self, language: str = "en") -> None:
        self.language = language
        file = resources.files(PACKAGE).joinpath("texts", f"{language}.toml")
        self._texts = dict(_flat(tomllib.loads(file.read_text("utf-8"))))

    def __call__(self, id_: str, /, **values: object) -> str:
        """The text of an id, with values in the places that it names. Raises KeyError."""
        return self._texts[id_].format_map(values) if values else self._texts[id_]

    def markup(self, id_: str, /, **values: object) -> Markup:
        """The same where values are markup already; everything else is escaped."""
        return escape(self._texts[id_]).format(**values)

    def count(self, id_: str, number: int, **values: object) -> str:
        """The text for one or for several: ids ending in `_one` and `_other`."""
        form = "one" if number == 1 else "other"
        return self(f"{id_}_{form}", count=f"{number:,}", **values)

    def ids(self) -> frozenset[str]:
        return frozenset(self._texts)


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", str(value)


class StaticFile(NamedTuple):
    """A file that browsers load."""

    content: bytes
    compressed: bytes
    """The same for browsers that take gzip, which are all."""
    fingerprint: str
    """A short hash, so that browsers may keep the file until it changes."""


@functools.cache
def static_files() -> Mapping[str, StaticFile]:
    """The files that may be loaded, by their path; nothing else can be asked for."""
    root = str(resources.files(PACKAGE).joinpath("static"))
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                content = file.read()
            shown = os.path.relpath(path, root).replace(os.sep, "/")
            short = hashlib.sha256(content).hexdigest()[:12]
            found[shown] = StaticFile(content, gzip.compress(content, mtime=0), short)
    return found


def static(name: str) -> str:
    """The address of a static file."""
    return f"/static/{static_files()[name].fingerprint}/{name}"


class Rendering:
    """Draws pages and their live parts."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self._loader = PackageLoader(PACKAGE)
        self._environment = Environment(
            loader=self._loader,
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        values = {"t": texts, "tm": texts.markup, "tn": texts.count, "static": static, "link": link}
        self._environment.globals.update(values)
        # A live block is drawn without the head of its template, so it could import nothing.
        # The components come first, because the other macros use them.
        names = self._environment.list_templates(filter_func=_is_macros)
        for name in sorted(names, key=lambda one: (one != COMPONENTS, one)):
            module = self._environment.get_template(name).module
            self._environment.globals[name.removeprefix(_MACROS).removesuffix(".html")] = module
        self._live: dict[str, dict[str, Any]] = {}

    def page(self, template: str, context: Mapping[str, Any]) -> str:
        """A whole page."""
        return self._environment.get_template(template).render(context)

    def live(self, template: str, context: Mapping[str, Any]) -> dict[str, str]:
        """The live blocks of a page by name."""
        values = self._environment.get_template(template).new_context(dict(context))
        return {
            name: "".join(block(values)).strip() for name, block in self._blocks(template).items()
        }

    def _blocks(self, template: str) -> dict[str, Any]:
        """The live blocks of a template and of what it extends; its own win."""
        if template not in self._live:
            environment = self._environment
            text = self._loader.get_source(environment, template)[0]
            parent = _PARENT.match(text)
            blocks = self._blocks(parent[1]) if parent else {}
            own = environment.get_template(template).blocks
            live = {name: block for name, block in own.items() if name.startswith(LIVE)}
            self._live[template] = blocks | live
        return self._live[template]


def _is_macros(name: str) -> bool:
    return name.startswith(_MACROS)
