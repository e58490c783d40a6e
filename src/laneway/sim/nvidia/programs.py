"""The programs that come with NVIDIA's driver, by the name under which they are run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from laneway.core.programs import NVIDIA_SMI, SRIOV_MANAGE
from laneway.sim.nvidia import smi, sriov_manage
from laneway.sim.nvidia.driver import NvidiaDriver
from laneway.sim.programs import Program

_CHANGES = frozenset({"-mig", "-shm", "-cgi", "-cci", "-dci", "-dgi", "-e", "-d"})


def programs(driver: NvidiaDriver) -> Mapping[str, Program]:
    return {
        NVIDIA_SMI: Program(partial(smi.run, driver), _changes),
        SRIOV_MANAGE: Program(partial(sriov_manage.run, driver), _changes),
    }


def _changes(argv: Sequence[str]) -> bool:
    return any(word.partition("=")[0] in _CHANGES for word in argv[1:])
