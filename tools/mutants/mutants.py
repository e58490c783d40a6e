"""Whether tests notice a wrong line: makes one-line faults and runs the tests that pass each.

Cosmic Ray makes the faults: comparisons, conditions and loops that are turned around, `and` for
`or`, exceptions that are let through. A module is drawn by its size, then one of the faults that it
can have. The seed decides on everything: a run can be repeated, and one fault of it alone. All
tests run once without a fault, to see which pass its place; of those the nearest are run with it.

A fault is caught when a test fails that succeeds without it. Each runs on a copy of the sources, so
they can be worked on meanwhile.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

sys.path.insert(0, str(Path(__file__).parent))
from reached import RECORD, Reached, marked

SOURCE = Path("src/laneway")
TESTS = ("tests/unit", "tests/contract", "tests/scenario")
LEFT_OUT = re.compile(
    r"_pb2|_grpc\.py|/sim/|/simcluster/|/laneway/api/|/apiserver/|__init__|__main__"
)
"""What stands for hardware and Kubernetes, what is generated, and what has nothing but data."""

COMPARISONS = "Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is Lt_LtE LtE_Lt Gt_GtE GtE_Gt Lt_GtE GtE_Lt"
OPERATORS = [
    *(f"core/ReplaceComparisonOperator_{pair}" for pair in COMPARISONS.split()),
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


class Fault(NamedTuple):
    """One wrong line."""

    number: int
    module: str
    line: int
    before: str
    after: str
    code: str
    """The whole module with it."""


class Verdict(NamedTuple):
    """What tests make of a fault."""

    caught: bool
    by: str
    seconds: float


def possible(code: str) -> list[tuple[str, int]]:
    """Every fault that a module can have: an operator, and at which of its places."""
    nodes = list(ast_nodes(get_ast(code)))
    found = []
    for name in OPERATORS:
        operator = get_operator(name)()
        places = sum(len(list(operator.mutation_positions(node))) for node in nodes)
        found += [(name, place) for place in range(places)]
    return found


def decorators(code: str) -> set[int]:
    """The lines of all decorators."""
    return {
        line
        for node in ast.walk(ast.parse(code))
        for one in getattr(node, "decorator_list", ())
        for line in range(one.lineno, one.end_lineno + 1)
    }


def drawn(seed: int, count: int) -> list[Fault]:
    """So many faults, in modules that are different as long as there are enough."""
    luck = random.Random(seed)  # noqa: S311 - no secret
    paths = [path for path in sorted(SOURCE.rglob("*.py")) if not LEFT_OUT.search(str(path))]
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
        pairs = enumerate(zip(code.splitlines(), (wrong or code).splitlines(), strict=True), 1)
        lines = [(line, old.strip(), new.strip()) for line, (old, new) in pairs if old != new]
        if len(lines) != 1:
            continue
        [(line, old, new)] = lines
        # what decorates or declares, and a moment more or less, is no decision
        if (
            (str(path), line) in met
            or line in decorators(code)
            or old.startswith(("assert ", "class "))
            or "monotonic" in old
        ):
            continue
        met.add((str(path), line))
        faults.append(Fault(len(faults) + 1, str(path), line, old, new, wrong))
    return faults


def reached(faults: list[Fault], tests: list[str], folder: Path) -> Reached:
    """Run all tests without a fault, with its place marked."""
    shutil.copytree(SOURCE, folder / SOURCE)
    for module in {fault.module for fault in faults}:
        places = [(fault.number, fault.line) for fault in faults if fault.module == module]
        code = marked(Path(module).read_text("utf-8"), places)
        (folder / module).write_text(code, encoding="utf-8")
    (folder / "record").touch()
    options = ("-n", "auto", "--maxprocesses", "8", "--dist", "loadfile", "-p", "reached")
    pytest(folder, *options, *tests, record=str(folder / "record"))
    return Reached(folder / "record")


def judge(fault: Fault, tests: list[str], folder: Path) -> Verdict:
    """Run a fault's tests with it, and those that fail without it."""
    began = time.monotonic()
    if not tests:
        return Verdict(False, "no test passes it", 0)
    shutil.copytree(SOURCE, folder / SOURCE)
    options = ["-x", "-n", "0", "--timeout", "60", "-o", f"cache_dir={folder / 'cache'}"]
    sound, caught, by = Path(fault.module).read_text("utf-8"), False, ""
    for _ in range(MOST_FAILING):
        (folder / fault.module).write_text(fault.code, encoding="utf-8")
        status, by = pytest(folder, *options, *tests)
        if not status:
            break
        (folder / fault.module).write_text(sound, encoding="utf-8")
        named = "::" in by
        again = [by] if named else tests
        # Twice, for a test may also fail because the machine is busy.
        caught = any(not pytest(folder, *options, *again)[0] for _ in range(2))
        if caught or not named:
            break
        options += ["--deselect", by]  # it fails without the fault as well
    shutil.rmtree(folder)
    return Verdict(caught, by, time.monotonic() - began)


def pytest(folder: Path, *options: str, record: str = "") -> tuple[int, str]:
    """Run it on the sources in a folder. The exit status, and what failed or how it ended."""
    paths = [folder / SOURCE.parent, *Path.cwd().glob("packages/*/src"), Path(__file__).parent]
    variables = {"PYTHONPATH": os.pathsep.join(map(str, paths)), RECORD: record}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--tb=no", "-m", "not slow", *options],
            env=os.environ | variables | {"PYTHONDONTWRITEBYTECODE": ""},
            capture_output=True,
            check=False,
            text=True,
            timeout=None if record else SECONDS,
        )
    except subprocess.TimeoutExpired:
        return 1, f"not done after {SECONDS} s"
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    said = (done.stdout + done.stderr).strip().splitlines() or ["nothing said"]
    return done.returncode, failed[1] if failed else said[-1][:100]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--count", type=int, default=40, help="how many faults")
    arguments.add_argument("--seed", type=int, default=16)
    arguments.add_argument("--only", type=int, nargs="+", help="faults of the run, by number")
    arguments.add_argument("--tests", nargs="+", default=TESTS, help="where the tests are")
    arguments.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments.add_argument("--list", action="store_true", help="show the faults, run nothing")
    asked = arguments.parse_args()
    faults = drawn(asked.seed, asked.count)
    faults = [one for one in faults if not asked.only or one.number in asked.only]
    print(f"{len(faults)} faults, seed {asked.seed}", flush=True)
    if asked.list:
        for fault in faults:
            print(row(fault))
        return 0
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(asked.jobs) as workers:
        record = reached(faults, asked.tests, Path(place, "marked"))
        tests = [record.by(fault.number, fault.module, fault.before) for fault in faults]
        folders = [Path(place, str(fault.number)) for fault in faults]
        verdicts = []
        for fault, verdict in zip(faults, workers.map(judge, faults, tests, folders), strict=True):
            verdicts.append(verdict)
            word = "caught  " if verdict.caught else "SURVIVED"
            outcome = f"     {word} {verdict.seconds:4.0f} s  {verdict.by}"
            print(row(fault), outcome, sep="\n", flush=True)
    caught = sum(verdict.caught for verdict in verdicts)
    print(f"{caught} of {len(verdicts)} caught")
    return 0


def row(fault: Fault) -> str:
    place = f"{fault.module.removeprefix('src/')}:{fault.line}"
    return f"{fault.number:3}  {place}\n       - {fault.before}\n       + {fault.after}"


if __name__ == "__main__":
    sys.exit(main())
