"""Which tests are nearest to a module, by what imports what."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

MOST = 30
"""So many files of tests; the nearest go first."""
RINGS = 4
BY_NAME = re.compile(r"^laneway(?:\.\w+)+")
"""Commands are imported when they are used, by what a text says."""


def imported(path: Path) -> set[str]:
    """The modules that a file imports, as `a.b.c`; of `from a.b import c` both a.b and a.b.c."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= set(BY_NAME.findall(node.value))
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


class Nearest:
    """The imports of all sources and tests, read once."""

    def __init__(self, sources: Iterable[str], tests: Iterable[str]) -> None:
        self._sources = {
            self._name(path): imported(path)
            for source in sources
            for path in (*Path(source).rglob("*.py"), *Path("tests/support").rglob("*.py"))
        }
        self._tests = {
            path: self._seen_by(path) for test in tests for path in Path(test).rglob("test_*.py")
        }

    @staticmethod
    def _name(path: Path) -> str:
        """`src/laneway/a/b.py` is `laneway.a.b`, `tests/support/c.py` is `support.c`."""
        root = "src" if "src" in path.parts else "tests"
        parts = path.with_suffix("").parts[path.parts.index(root) + 1 :]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @staticmethod
    def _seen_by(path: Path) -> set[str]:
        """What a test imports itself, or the conftest.py files that are for it."""
        found = imported(path)
        for folder in path.parents:
            if (shared := folder / "conftest.py").exists():
                found |= imported(shared)
        return found

    def of(self, module: str) -> list[str]:
        """Files of tests: of those that import it, then of its folder, then of its importers."""
        name = self._name(Path(module))
        ring, met = {name}, {name}
        mirror = Path("tests/unit", *name.split(".")[1:-1])
        found: list[Path] = []
        for _ in range(RINGS):
            near = [test for test, seen in self._tests.items() if seen & ring]
            new = set(near) - set(found)
            found += sorted(new, key=lambda test: self._order(test, mirror, words(name)))
            if len(found) >= MOST:
                break
            found += [test for test in self._tests if test.parent == mirror and test not in found]
            ring = {other for other, seen in self._sources.items() if seen & ring} - met
            met |= ring
        return [str(test) for test in found[:MOST]]

    @staticmethod
    def _order(test: Path, mirror: Path, name: set[str]) -> tuple[bool, bool, int, str]:
        """Beside the module, then what is cheap, then what is called like it."""
        alike = len(name & words("/".join(test.with_suffix("").parts[1:])))
        return test.parent != mirror, "scenario" in test.parts, -alike, str(test)


def words(name: str) -> set[str]:
    """The words of a path or of a module's name, in the singular."""
    return {word.removesuffix("s") for word in re.split(r"[^a-z]+", name)}
