"""Servers as the installer left them, in a cluster with VMs; `policy` makes HostPolicies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from laneway.api import HostPolicy, HostPreparation
from laneway.kube.resource import served
from support.worlds import World

SETTINGS = {"iommu": True, "vfioAtBoot": True, "blockedDrivers": ["nouveau"]}


@pytest.fixture
def policy(world: World) -> Callable[..., Awaitable[Any]]:
    """Make a HostPolicy by its name, its roll-out and its settings."""

    async def make(name: str = "gpus", *, when: str = "WhenFree", **spec: Any) -> Any:
        rollout = {"reboot": {"when": when}, **spec.pop("rollout", {})}
        body = {
            "apiVersion": served(HostPolicy).api_version,
            "kind": "HostPolicy",
            "metadata": {"name": name},
            "spec": {**(spec or SETTINGS), "rollout": rollout},
        }
        return await world.client.create(served(HostPolicy), body)

    return make


@pytest.fixture
def reason(world: World) -> Callable[..., Awaitable[Any]]:
    """Wait until a policy's condition Ready has a reason; the policy."""

    async def wait(name: str, expected: str) -> Any:
        def holds(one: Any) -> bool:
            return one is not None and any(
                (c.type, c.reason) == ("Ready", expected) for c in one.status.conditions
            )

        return await world.until(served(HostPolicy), name, holds)

    return wait


@pytest.fixture
def stage(world: World) -> Callable[..., Awaitable[Any]]:
    """Wait until a node is at a stage of its roll-out, and its message has some words."""

    async def wait(node: str, expected: str, words: str = "") -> Any:
        def holds(one: Any) -> bool:
            found = one is not None and one.spec.rollout
            return bool(found) and found.stage == expected and words in found.message

        return await world.until(served(HostPreparation), node, holds)

    return wait
