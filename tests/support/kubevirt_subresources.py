"""What KubeVirt's subresource API does of a VM: start, stop, restart.

It is virt-api that serves `subresources.kubevirt.io`, an aggregated API server next to the
controllers. So this is what it answers; who has it served is for the caller. By the rules of
KubeVirt's `virt-api/rest/lifecycle.go`, the spec is changed where the run strategy can say it; else
`status.stateChangeRequests` tells the controller. A migration and a pause are left out.
"""

from __future__ import annotations

import contextlib

from laneway.core.raw import JsonObject
from laneway.kube.client import Client
from laneway.kube.errors import ConflictError, NotFoundError
from laneway.simcluster.kubevirt.objects import FINAL, INSTANCES, VMS, Instance, Vm
from laneway.simcluster.kubevirt.strategy import (
    START_REQUEST,
    STOP_REQUEST,
    Strategy,
    strategy_of,
)

ACTIONS = frozenset({"start", "stop", "restart"})
_NOT_RUNNING = "VM is not running"


class StateConflictError(Exception):
    """What is requested does not go together with the state of the VM; the words are KubeVirt's."""


class UnderwayError(Exception):
    """An earlier request is not done yet; only that a VM stops takes its place."""

    def __init__(self) -> None:
        super().__init__("unable to complete request: stop/start already underway")


async def request(client: Client, namespace: str, name: str, action: str) -> None:
    """Change the state of a VM.

    Raises StateConflictError, UnderwayError, and NotFoundError without the VM.
    """
    while True:
        with contextlib.suppress(ConflictError):  # virt-api compares only the requests
            await _request(client, namespace, name, action)
            return


async def _request(client: Client, namespace: str, name: str, action: str) -> None:
    vm = await client.get(VMS, name, namespace)
    try:
        instance = await client.get(INSTANCES, name, namespace)
    except NotFoundError:
        instance = None
    change = {"start": _start, "stop": _stop, "restart": _restart}[action](vm, instance)
    about = {"uid": vm.metadata.uid, "resourceVersion": vm.metadata.resource_version}
    subresource = "status" if "status" in change else ""
    if subresource and vm.status.state_change_requests and action != "stop":
        raise UnderwayError
    body = {"metadata": about, **change}
    await client.patch(VMS, name, body, namespace, subresource=subresource)


def _start(vm: Vm, instance: Instance | None) -> JsonObject:
    if instance is not None and instance.status.phase not in FINAL:
        raise StateConflictError("VM is already running")
    strategy = strategy_of(vm)
    if strategy == Strategy.HALTED:
        return _by_strategy(Strategy.ALWAYS)
    if strategy not in (Strategy.RERUN, Strategy.MANUAL):
        raise StateConflictError(f"{strategy} does not support manual start requests")
    if instance is None:
        return _requests({"action": START_REQUEST})
    if strategy == Strategy.RERUN and instance.status.phase == "Failed":
        raise StateConflictError(f"{strategy} does not support starting VM from failed state")
    return _again(instance)


def _stop(vm: Vm, instance: Instance | None) -> JsonObject:
    if instance is None or instance.status.phase in FINAL:
        raise StateConflictError(_NOT_RUNNING)
    strategy = strategy_of(vm)
    if strategy in (Strategy.RERUN, Strategy.MANUAL):
        return _requests({"action": STOP_REQUEST, "uid": instance.metadata.uid})
    return _by_strategy(Strategy.HALTED)


def _restart(vm: Vm, instance: Instance | None) -> JsonObject:
    strategy = strategy_of(vm)
    if strategy == Strategy.HALTED:
        raise StateConflictError(f"RunStategy {strategy} does not support manual restart requests")
    if instance is None:
        raise StateConflictError(f"{_NOT_RUNNING}: {Strategy.HALTED}")
    return _again(instance)


def _again(instance: Instance) -> JsonObject:
    stop: JsonObject = {"action": STOP_REQUEST, "uid": instance.metadata.uid}
    return _requests(stop, {"action": START_REQUEST})


def _by_strategy(strategy: str) -> JsonObject:
    return {"spec": {"running": None, "runStrategy": strategy}}


def _requests(*requests: JsonObject) -> JsonObject:
    return {"status": {"stateChangeRequests": [*requests]}}
