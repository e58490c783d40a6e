"""The question of `laneway capacity` as people write it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import click

from laneway.cli.errors import Failure
from laneway.cli.suggest import did_you_mean
from laneway.core import names
from laneway.core.fleet.resources import meant
from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.core.ledger.ledger import Ledger
from laneway.core.ledger.question import selected
from laneway.views.order import natural

MOST = 100_000
"""Machines, or devices of one machine, that can be asked about."""

_WISH = re.compile(r"([!-<>-~](?:[ -<>-~]*[!-<>-~])?)(?:=([0-9]{1,6}))?")
_LABEL = re.compile(r"([A-Za-z0-9][A-Za-z0-9._/-]*)=([A-Za-z0-9._-]*)")
_LISTED = 12
_NAMESPACED = re.compile(r"[^/=]*/")
"""Before the first `=`: keys of labels may have a slash themselves."""


def requested(values: Iterable[str], most: int = MOST, hint: str = "") -> dict[str, int]:
    """What `RESOURCE[=COUNT]...` asks for, by name as it is written; `most`: the largest count."""
    wanted: Counter[str] = Counter()
    for value in values:
        match = _WISH.fullmatch(value.strip())
        count = int(match[2] or 1) if match else 0
        if match is None or not 1 <= count <= most:
            raise click.BadParameter(
                f"{value!r}: write RESOURCE=COUNT, such as nvidia.com/NVIDIA_A2-2Q=2, with a count "
                f"of 1 to {most}{hint}"
            )
        wanted[match[1]] += count
    return dict(wanted)


def labels(values: Iterable[str]) -> dict[str, str]:
    """What `KEY=VALUE...` asks for."""
    found = {}
    for value in values:
        match = _LABEL.fullmatch(value)
        if match is None:
            raise click.BadParameter(f"{value!r}: write KEY=VALUE")
        found[match[1]] = match[2]
    return found


def in_full(
    wanted: Mapping[str, int], known: Iterable[str], offered: Collection[str] = ()
) -> dict[str, int]:
    """The same by the names of resources; a vGPU profile may be short. Raises Failure.

    `offered`: those of profiles that a GPU could have, where that is known.
    """
    there = sorted(known, key=natural)
    possible = sorted({*there, *offered}, key=natural)
    found: Counter[str] = Counter()
    for name, count in wanted.items():
        full = _resource(name, there) or _resource(name, possible)
        if not full:
            neither = ", and no GPU offers such a profile" if offered else ""
            hint = did_you_mean(name, _short(possible)) or _all(there or possible)
            raise Failure(f"no node has a resource {name}{neither}. {hint}")
        found[full] += count
    return dict(found)


def _resource(name: str, known: Sequence[str]) -> str:
    """The one that a name means; empty for none."""
    alike = meant(name, known)
    if len(alike) > 1:
        raise Failure(f"{name} could be each of {_listed(alike)}; write the name in full")
    return alike[0] if alike else ""


def vms(ledger: Ledger, values: Iterable[str], own: str = "") -> tuple[Consumer, ...]:
    """The VMs that `[NAMESPACE/]NAME` or `[NAMESPACE/]KEY=VALUE` means. Raises Failure.

    `own`: the namespace of those that name none.
    """
    found: list[Consumer] = []
    for value in values:
        before, slash, name = value.partition("/") if _NAMESPACED.match(value) else ("", "/", value)
        namespace = before or own
        if not (namespace and slash and name):
            raise Failure(f"{value!r}: write NAMESPACE/NAME, or NAMESPACE/KEY=VALUE for a label")
        if "=" in name:
            key, _, wanted = name.partition("=")
            chosen = selected(ledger, namespace, {key: wanted})
            meant = tuple(consumer for consumer in chosen if consumer.kind is ConsumerKind.VM)
        else:
            consumer = Consumer(ConsumerKind.VM, namespace, name)
            meant = (consumer,) if consumer in ledger.demands else ()
        if not meant:
            raise Failure(
                f"the cluster has no VM {value}. "
                f"{did_you_mean(value, map(_path, ledger.demands))} "
                "'kubectl get virtualmachines -A --show-labels' lists the VMs"
            )
        found += meant
    return tuple(dict.fromkeys(found))


def _path(consumer: Consumer) -> str:
    return f"{consumer.namespace}/{consumer.name}"


def _short(resources: Iterable[str]) -> list[str]:
    """What people write for resources: profiles short, all else in full."""
    vgpu = names.vgpu_resource_name("NVIDIA ")
    return [one.removeprefix(f"{vgpu}_").removeprefix(vgpu) for one in resources]


def _all(known: Sequence[str]) -> str:
    return f"The resources are {_listed(known)}" if known else "No node has any"


def _listed(names_: Sequence[str]) -> str:
    more = f" and {len(names_) - _LISTED} more" if len(names_) > _LISTED else ""
    return ", ".join(names_[:_LISTED]) + more
