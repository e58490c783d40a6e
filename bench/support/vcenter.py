"""The vCenter simulator of the tests, loaded by its path: both have a folder named `support`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

_FILE = Path(__file__).parents[2] / "tests" / "support" / "vcenter.py"

if TYPE_CHECKING:
    from tests.support.vcenter import NoSimulatorError, Simulator, program
else:
    _spec = importlib.util.spec_from_file_location("tests_support_vcenter", _FILE)
    _module = importlib.util.module_from_spec(_spec)
    sys.modules[_spec.name] = _module
    _spec.loader.exec_module(_module)
    NoSimulatorError, Simulator = _module.NoSimulatorError, _module.Simulator
    program = _module.program

__all__ = ["NoSimulatorError", "Simulator", "program"]
