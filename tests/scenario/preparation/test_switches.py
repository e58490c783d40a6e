"""Harvester's settings, which make the default policies, and the command that allows a reboot."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from laneway.api import HostPolicy, HostPreparation, Setting
from laneway.changes.errors import ChangeError
from laneway.changes.reboots import allow_reboot
from laneway.kube.errors import AlreadyExistsError, NotFoundError
from laneway.kube.resource import served
from laneway.roles.install import install_setting
from support.control_plane import until_served
from support.worlds import World

Make = Callable[..., Awaitable[Any]]
BARE = "a2,iommu=off"
SETTINGS = served(Setting)


@pytest.fixture
async def switch(world: World) -> Make:
    """Set a setting; wait for the condition that says what became of it, and give its words."""
    await install_setting(world.client)
    await until_served(world.client, SETTINGS.path())

    async def set_to(name: str, value: str, expected: str) -> str:
        body = {"apiVersion": SETTINGS.api_version, "kind": "Setting", "metadata": {"name": name}}
        with contextlib.suppress(AlreadyExistsError):
            await world.client.create(SETTINGS, body)
        await world.client.patch(SETTINGS, name, {"value": value})

        def holds(one: Any) -> bool:
            return any(c.reason == expected for c in one.status.conditions)

        found = await world.until(SETTINGS, name, holds)
        return str(found.status.conditions[0].message)

    return set_to


@pytest.mark.realapi
async def test_a_setting_is_the_switch_of_a_policy(
    world: World, switch: Make, reason: Make
) -> None:
    node = await world.add_server("n1", BARE)

    await switch("pci-pt-enable", "true", "Enabled")
    made = await reason("pci-pt-enable", "RolledOut")

    assert (made.spec.iommu, made.spec.rollout.reboot.when) == (True, "WhenFree")
    assert node.host.boots == 1
    await switch("pci-pt-enable", "false", "Disabled")
    off = await world.until(served(HostPolicy), "pci-pt-enable", lambda one: not one.spec.iommu)
    assert off.spec.rollout.reboot.when == "WhenFree"  # its users' matter


async def test_a_setting_with_nonsense_changes_nothing_and_says_so(
    world: World, switch: Make
) -> None:
    words = await switch("gpu-enable", "maybe", "InvalidValue")

    assert "'maybe' is neither true nor false" in words
    with pytest.raises(NotFoundError):
        await world.client.get(served(HostPolicy), "gpu-enable")


async def test_a_node_reboots_once_an_administrator_allows_it(
    world: World, policy: Make, reason: Make, stage: Make
) -> None:
    node = await world.add_server("n1", BARE)
    with pytest.raises(ChangeError, match="no HostPolicy selects a node n1"):
        await allow_reboot(world.client, "n1")
    await policy(when="OnCommand")
    await stage("n1", "RebootPending", "laneway hosts reboot n1")

    await allow_reboot(world.client, "n1", dry_run=True)
    assert node.host.boots == 0
    await allow_reboot(world.client, "n1")
    await reason("gpus", "RolledOut")

    assert node.host.boots == 1
    with pytest.raises(ChangeError, match="does not wait for a reboot: it is Ready"):
        await allow_reboot(world.client, "n1")


async def test_an_agent_that_does_not_see_the_files_of_its_node_says_what_helps(
    world: World, policy: Make, reason: Make
) -> None:
    await world.add("n1", BARE)

    await policy()
    found = await reason("gpus", "NodeFailed")

    assert "hosts.prepare=true" in found.status.nodes[0].message
    one = await world.client.get(served(HostPreparation), "n1")
    assert one.status.stage == "Failed"
    with pytest.raises(ChangeError, match="does not wait for a reboot: it is Failed"):
        await allow_reboot(world.client, "n1")
