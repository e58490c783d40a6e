"""Whether tests notice a wrong line: makes one-line faults and runs the nearest tests on each.

Cosmic Ray makes the faults: comparisons, conditions and loops that are turned around, `and` for
`or`, exceptions that are let through. A module is drawn by its size, then one of the faults that it
can have. The nearest tests are those that import the module; where none does, what imports what
imports it. The seed decides on everything: a run can be repeated, and one fault of it alone.

A fault is caught when a test fails that passes without it. Each runs on a copy of the sources, so a
checkout can be worked on meanwhile.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

sys.path.insert(0, str(Path(__file__).parent))
from nearest import Nearest

SOURCES = ("src/laneway",)
LEFT_OUT = re.compile(
    r"_pb2|_grpc\.py|/sim/|/simcluster/|/laneway/api/|/apiserver/|__init__|__main__"
)
"""What stands for hardware and Kubernetes, what is generated, and what has nothing but data."""

OPERATORS = [
    *(
        f"core/ReplaceComparisonOperator_{before}_{after}"
        for before, after in [
            ("Eq", "NotEq"),
            ("NotEq", "Eq"),
            ("Is", "IsNot"),
            ("IsNot", "Is"),
            ("Lt", "LtE"),
            ("LtE", "Lt"),
            ("Gt", "GtE"),
            ("GtE", "Gt"),
            ("Lt", "GtE"),
            ("GtE", "Lt"),
        ]
    ),
    "core/ReplaceAndWithOr",
    "core/ReplaceOrWithAnd",
    "core/ReplaceTrueWithFalse",
    "core/ReplaceFalseWithTrue",
    "core/ReplaceUnaryOperator_Delete_Not",
    "core/ReplaceBreakWithContinue",
    "core/ReplaceContinueWithBreak",
    "core/AddNot",
    "core/ZeroIterationForLoop",
    "core/ExceptionReplacer",
]
MOST_FAILING = 4
"""So many tests that fail without the fault as well are passed over."""
SECONDS = 300
"""A fault that makes tests run longer than this is caught, too."""


@dataclass(frozen=True)
class Fault:
    """One wrong line."""

    number: int
    module: str
    line: int
    before: str
    after: str
    code: str
    """The whole module with it."""


@dataclass(frozen=True)
class Verdict:
    """What the nearest tests make of a fault."""

    caught: bool
    by: str
    seconds: float


def modules() -> list[Path]:
    found = [path for source in SOURCES for path in sorted(Path(source).rglob("*.py"))]
    return [path for path in found if not LEFT_OUT.search(str(path))]


def possible(code: str) -> list[tuple[str, int]]:
    """Every fault that a module can have: an operator, and at which of its places."""
    nodes = list(ast_nodes(get_ast(code)))
    found = []
    for name in OPERATORS:
        operator = get_operator(name)()
        places = sum(len(list(operator.mutation_positions(node))) for node in nodes)
        found += [(name, place) for place in range(places)]
    return found


def changed(before: str, after: str) -> Iterator[tuple[int, str, str]]:
    """The lines that differ."""
    pairs = zip(before.splitlines(), after.splitlines(), strict=True)
    return (
        (number, old.strip(), new.strip())
        for number, (old, new) in enumerate(pairs, 1)
        if old != new
    )


def drawn(seed: int, count: int) -> list[Fault]:
    """So many faults, in modules that are different as long as there are enough."""
    luck = random.Random(seed)  # noqa: S311 - no secret
    paths = modules()
    sizes = [path.stat().st_size for path in paths]
    faults: list[Fault] = []
    met: set[tuple[str, int]] = set()
    while len(faults) < count:
        [path] = luck.choices(paths, sizes)
        code = path.read_text(encoding="utf-8")
        if not (choices := possible(code)):
            continue
        name, place = luck.choice(choices)
        try:
            wrong = mutate_code(code, get_operator(name)(), place)
        except AttributeError:  # of `except (a.B, C)` Cosmic Ray can replace only C
            continue
        if wrong is None or len(lines := list(changed(code, wrong))) != 1:
            continue
        [(line, old, new)] = lines
        # what decorates or declares, and a moment more or less, is no decision
        if (
            (str(path), line) in met
            or old.startswith(("@", "assert ", "class "))
            or "monotonic" in old
        ):
            continue
        met.add((str(path), line))
        faults.append(Fault(len(faults) + 1, str(path), line, old, new, wrong))
    return faults


class Bench:
    """Runs tests on a copy of the sources, with a fault or without."""

    def __init__(self, python: str, folder: Path, nearest: Nearest) -> None:
        self._python = python
        self._folder = folder
        self._nearest = nearest

    def judge(self, fault: Fault) -> Verdict:
        began = time.monotonic()
        tests = self._nearest.of(fault.module, fault.line)
        if not tests:
            return Verdict(False, "no test imports it", 0)
        sources = self._folder / f"fault-{fault.number}"
        for source in SOURCES:
            shutil.copytree(Path(source).parent, sources / Path(source).parent, dirs_exist_ok=True)
        (sources / fault.module).write_text(fault.code, encoding="utf-8")
        sound = Path(fault.module).read_text("utf-8")
        caught, by, failing = False, "", []
        for _ in range(MOST_FAILING):
            (sources / fault.module).write_text(fault.code, encoding="utf-8")
            status, by = self._run(sources, tests, failing)
            if not status:
                break
            (sources / fault.module).write_text(sound, encoding="utf-8")
            caught = not self._run(sources, ["--last-failed", *tests], failing)[0]
            if caught or "::" not in by:
                break
            failing.append(by)  # it fails without the fault as well
        shutil.rmtree(sources)
        return Verdict(caught, by, time.monotonic() - began)

    def _run(self, sources: Path, tests: list[str], without: list[str]) -> tuple[int, str]:
        """The exit status, and the test that failed or how many files did not."""
        copies = [sources / Path(source).parent for source in SOURCES]
        paths = os.pathsep.join(map(str, [*copies, *Path.cwd().glob("packages/*/src")]))
        options = ["-q", "-x", "-n", "0", "--timeout", "60", "--tb=no", "-m", "not slow"]
        options += ["-o", f"cache_dir={sources / 'cache'}"]
        options += [option for test in without for option in ("--deselect", test)]
        try:
            done = subprocess.run(
                [self._python, "-m", "pytest", *options, *tests],
                env=os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": ""},
                capture_output=True,
                check=False,
                text=True,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return 1, f"not done after {SECONDS} s"
        if done.returncode == 0:
            return 0, f"{len(tests)} files"
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
        said = (done.stdout + done.stderr).strip().splitlines() or ["nothing said"]
        return done.returncode, failed[1] if failed else said[-1][:100]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--count", type=int, default=40, help="how many faults")
    arguments.add_argument("--seed", type=int, default=16)
    arguments.add_argument("--only", type=int, nargs="+", help="faults of the run, by number")
    arguments.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments.add_argument("--list", action="store_true", help="show the faults, run nothing")
    arguments.add_argument("--python", default=sys.executable, help="what runs the tests")
    asked = arguments.parse_args()
    faults = drawn(asked.seed, asked.count)
    faults = [one for one in faults if not asked.only or one.number in asked.only]
    nearest = Nearest(SOURCES, ("tests/unit", "tests/contract", "tests/scenario"))
    print(f"{len(faults)} faults, seed {asked.seed}", flush=True)
    if asked.list:
        for fault in faults:
            print(row(fault, f"{len(nearest.of(fault.module, fault.line))} test files"))
        return 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(asked.jobs) as workers:
        bench = Bench(asked.python, Path(folder), nearest)
        verdicts = []
        for fault, verdict in zip(faults, workers.map(bench.judge, faults), strict=True):
            verdicts.append(verdict)
            word = "caught  " if verdict.caught else "SURVIVED"
            print(row(fault, f"{word} {verdict.seconds:4.0f} s  {verdict.by}"), flush=True)
    caught = sum(verdict.caught for verdict in verdicts)
    print(f"{caught} of {len(verdicts)} caught")
    return 0


def row(fault: Fault, outcome: str) -> str:
    place = f"{fault.module.removeprefix('src/')}:{fault.line}"
    lines = (f"{fault.number:3}  {place}", f"       - {fault.before}", f"       + {fault.after}")
    return "\n".join((*lines, f"     {outcome}"))


if __name__ == "__main__":
    sys.exit(main())
