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

    def of(self, module: str, line: int = 0) -> list[str]:
        """Files of tests: of those that import it, then of its folder, then of its importers.

        Of those that are as near, first what is called like the module and the function there:
        who wires everything is imported by nearly all tests of it.
        """
        name = self._name(Path(module))
        subject = words(name)
        around = words(function_at(Path(module), line)) - subject
        ring, met = {name}, {name}
        mirror = Path("tests/unit", *name.split(".")[1:-1])
        found: list[Path] = []
        for _ in range(RINGS):
            near = [test for test, seen in self._tests.items() if seen & ring]
            new = set(near) - set(found)
            found += sorted(new, key=lambda test: self._order(test, mirror, subject, around))
            if len(found) >= MOST:
                break
            found += [test for test in self._tests if test.parent == mirror and test not in found]
            ring = {other for other, seen in self._sources.items() if seen & ring} - met
            met |= ring
        return [str(test) for test in found[:MOST]]

    @staticmethod
    def _order(
        test: Path, mirror: Path, subject: set[str], around: set[str]
    ) -> tuple[bool, int, bool, str]:
        """Beside the module, then what is called like it, then what is cheap."""
        called = words("/".join(test.with_suffix("").parts[1:]))
        alike = 2 * len(subject & called) + len(around & called)
        return test.parent != mirror, -alike, "scenario" in test.parts, str(test)


def function_at(module: Path, line: int) -> str:
    """The text of the innermost function with a line; empty where none has it."""
    text = module.read_text(encoding="utf-8")
    found = ""
    for node in ast.walk(ast.parse(text)):  # outer ones come first
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            last = node.end_lineno or node.lineno
            if node.lineno <= line <= last:
                found = "\n".join(text.splitlines()[node.lineno - 1 : last])
    return found


def words(text: str) -> set[str]:
    """The words of a path, of a module's name or of code, in the singular."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()
    return {word.removesuffix("s") for word in re.split(r"[^a-z]+", apart)}
