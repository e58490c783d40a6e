"""HiGHS as the judge of an integer program: the best answer within a time, and a bound on all.

`highspy` is an optional dependency (`laneway[planner]`), imported when a program is to be solved.
It runs on one thread and with a fixed seed, so the same question has the same answer wherever its
time suffices.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from laneway.core.fleet.recommend.builder import Program


class SolverMissingError(Exception):
    """`highspy` is not installed."""


class Solution(msgspec.Struct, frozen=True):
    """The answer."""

    values: tuple[int, ...]
    bound: float
    """No answer is worth more."""


def solve(program: Program, seconds: float) -> Solution:
    """The best answer found. Raises SolverMissingError."""
    try:
        import highspy  # noqa: PLC0415 - optional, and large
    except ImportError as error:
        raise SolverMissingError from error
    # Its subclass for callbacks in Python writes a banner to standard output, where documents go.
    solver: Any = highspy.Highs.__base__
    model = solver()
    options = {
        "output_flag": False,
        "time_limit": float(seconds),
        "mip_rel_gap": 0.0,
        "mip_abs_gap": 0.5,
        "threads": 1,
        "random_seed": 0,
    }
    for name, value in options.items():
        model.setOptionValue(name, value)
    model.changeObjectiveSense(highspy.ObjSense.kMaximize)
    for number, (most, worth) in enumerate(zip(program.most, program.worth, strict=True)):
        model.addVar(0.0, float(most))
        model.changeColCost(number, worth)
        model.changeColIntegrality(number, highspy.HighsVarType.kInteger)
    for row in program.rows:
        numbers, factors = [one for one, _ in row.terms], [factor for _, factor in row.terms]
        model.addRow(-math.inf, float(row.most), len(numbers), numbers, factors)
    model.run()
    info, whole = model.getInfo(), _most_of_all(program)
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Solution((0,) * len(program.variables), whole)  # Nothing at all is always possible.
    bound = info.mip_dual_bound
    values = tuple(round(value) for value in model.getSolution().col_value)
    return Solution(values, min(bound, whole) if math.isfinite(bound) else whole)


def _most_of_all(program: Program) -> float:
    """A bound without any search: each variable at its most."""
    pairs = zip(program.most, program.worth, strict=True)
    return sum(most * worth for most, worth in pairs if worth > 0)
