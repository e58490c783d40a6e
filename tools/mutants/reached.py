"""Which tests come past the place of a fault, and how long each takes.

Marks the places in a copy of the sources, and is the pytest plug-in that records who passes them:
what a test imports says little where whole roles are wired together.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RECORD = "LANEWAY_REACHED"
"""The variable that names the file with the record."""
MOST_SECONDS = 60.0
"""So long may the tests of a fault have taken together; the nearest go first."""
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef

_met: set[tuple[object, str]] = set()


# ------------------------------------------------------------------- in the processes of tests


def passed(number: int) -> None:
    """A test passes the place of a fault; processes that it starts have its name as well."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if test and (number, test) not in _met:
        _met.add((number, test))
        _record("passed", number, test)


def pytest_runtest_logreport(report: Any) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        _record("took", round(report.duration, 3), report.nodeid)


def _record(*values: object) -> None:
    if path := os.environ.get(RECORD):
        line = "\t".join(map(str, values)) + "\n"
        with Path(path).open("a", encoding="utf-8") as record:
            record.write(line)


# --------------------------------------------------------------------------- next to the tests


def marked(code: str, faults: Iterable[tuple[int, int]]) -> str:
    """The module, recording who passes the statements with faults, given as number and line.

    What runs when a module is imported is passed by whatever calls one of its functions.
    """
    tree = ast.parse(code)
    blocks = [
        (isinstance(node, FUNCTION), body)
        for node in ast.walk(tree)  # outer ones come first
        for _, body in ast.iter_fields(node)
        if isinstance(body, list) and body and isinstance(body[0], ast.stmt)
    ]
    places = []
    for number, line in faults:
        around = [one for one in blocks if one[1][0].lineno <= line <= one[1][-1].end_lineno]
        if any(called for called, _ in around):
            body = around[-1][1]
            places += [(body, number, next(one for one in body if line <= one.end_lineno))]
        else:  # a docstring has to stay where it is
            bodies = [body for called, body in blocks if called]
            places += [(body, number, body[min(1, len(body) - 1)]) for body in bodies]
    for body, number, statement in places:
        mark = ast.parse(f"__import__('reached').passed({number})").body
        body[body.index(statement) : body.index(statement)] = mark
    return ast.unparse(ast.fix_missing_locations(tree))


class Reached:
    """The record, read."""

    def __init__(self, record: Path) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._tests: defaultdict[int, set[str]] = defaultdict(set)
        for line in record.read_text(encoding="utf-8").splitlines():
            what, value, test = line.split("\t", 2)
            if what == "took":
                self._seconds[_unit(test)] += float(value)
            else:
                self._tests[int(value)].add(_unit(test))

    def by(self, number: int, module: str, line: str) -> list[str]:
        """Tests that pass a fault: of the module's own place, then what is called like it."""

        def order(test: str) -> tuple[bool, int, float]:
            called = words(test)
            alike = 2 * len(words(module) & called) + len(words(line) & called)
            return not test.startswith("tests/unit/"), -alike, self._seconds[test]

        found = sorted(sorted(self._tests[number]), key=order)
        ends = itertools.accumulate(self._seconds[test] for test in found)
        return [test for test, end in zip(found, ends, strict=True) if end < MOST_SECONDS] or found[
            :1
        ]


def _unit(test: str) -> str:
    """What is run at once: a file where tests are quick and share what they look at."""
    return test if "/scenario/" in test else test.partition("::")[0]


def words(text: str) -> set[str]:
    """The words of a path or of code, in the singular."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()
    return {word.removesuffix("s") for word in re.split(r"[^a-z]+", apart)}
