"""Who uses a device, in the words that every message has for it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.core.phrases import few
from laneway.core.workload import Workload, ending


class VmState(StrEnum):
    """How a user stands to a device. The first that fits is reported."""

    RUNS = "it runs or is being started"
    STOPPED = "it is stopped; the device stays reserved for it"
    NEVER_STARTED = "it names the device and has not started with it yet"


class Use(NamedTuple):
    """One user of a device."""

    consumer: Consumer
    """A VM, or a pod that runs none."""
    state: VmState


def in_words(uses: Iterable[Use]) -> str:
    """`VM default/a (it is stopped; …)`, and so on."""
    return few(f"{consumer} ({state})" for consumer, state in uses)


def to_release(uses: Iterable[Use]) -> str:
    """What takes a device from its users, with the commands."""
    return few((ending(_workload(one), runs=state is VmState.RUNS) for one, state in uses), "; ")


def _workload(one: Consumer) -> Workload:
    is_vm = one.kind is ConsumerKind.VM
    return Workload(one.namespace, "" if is_vm else one.name, one.name if is_vm else "")
