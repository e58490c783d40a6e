"""Who uses a device, in the words that every message has for it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from laneway.core.ledger.facts import Who, WhoKind
from laneway.core.phrases import few


class Standing(StrEnum):
    """How a user stands to a device. The first that fits is told."""

    RUNS = "it runs, or is being started, with it"
    STOPPED = "it is stopped, and the device is kept for it"
    NEVER_STARTED = "it names the device and has not been started with it"


class Use(NamedTuple):
    """One user of a device."""

    who: Who
    """A virtual machine, or a pod that runs none."""
    standing: Standing


def told(uses: Iterable[Use]) -> str:
    """`vm a in namespace default (it is stopped, …)`, and so on."""
    return few(
        f"{_kind(who)} {who.name} in namespace {who.namespace} ({standing})"
        for who, standing in uses
    )


def told_shortly(uses: Iterable[Use]) -> str:
    """`vm a/default`, the name first, as Harvester says it of USB devices."""
    return few(f"{_kind(who)} {who.name}/{who.namespace} ({standing})" for who, standing in uses)


def _kind(who: Who) -> str:
    return "vm" if who.kind is WhoKind.MACHINE else "pod"
