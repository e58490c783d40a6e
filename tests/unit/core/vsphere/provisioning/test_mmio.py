"""Address space for large cards, and leave to reach peers."""

from __future__ import annotations

import pytest

from laneway.core.vsphere.provisioning.mmio import address_space_gib, extra_config, gpu_memory_gib
from laneway.core.vsphere.spec.requests import PassthroughRequest, PciIds, Requested

T4 = PciIds(0x10DE, 0x1EB8)
PLAIN = Requested((PassthroughRequest((T4,)),))


@pytest.mark.parametrize(
    ("memory", "space"), [(16, 32), (24, 64), (48, 128), (64, 128), (80, 256), (640, 2048), (1, 2)]
)
def test_the_next_power_of_two_after_rounding_up(memory: int, space: int) -> None:
    assert address_space_gib(memory) == space


def test_two_cards_of_24_gib_need_128() -> None:
    assert extra_config([24, 24], PLAIN, {}) == {
        "pciPassthru.use64bitMMIO": "TRUE",
        "pciPassthru.64bitMMIOSizeGB": "128",
    }


def test_nothing_is_set_for_what_has_no_memory_of_its_own() -> None:
    assert extra_config([], PLAIN, {}) == {}
    assert extra_config([0, -3], PLAIN, {}) == {}


def test_peers_may_reach_each_other_where_that_is_requested() -> None:
    requested = Requested(PLAIN.devices, peer_to_peer=True)
    assert extra_config([0], requested, {}) == {
        "pciPassthru.allowP2P": "TRUE",
        "pciPassthru.RelaxACSforP2P": "TRUE",
    }


def test_what_a_user_sets_stands_however_it_is_written() -> None:
    requested = Requested(PLAIN.devices, peer_to_peer=True)
    custom = {"PciPassthru.64BitMMIOSizeGB": "512", "pciPassthru.allowP2P": "FALSE"}
    assert extra_config([16], requested, custom) == {
        "pciPassthru.use64bitMMIO": "TRUE",
        "pciPassthru.RelaxACSforP2P": "TRUE",
    }
    assert extra_config([16], PLAIN, {"pciPassthru.use64bitMMIO": "false"}) == {}


def test_the_memory_of_a_card_is_looked_up() -> None:
    assert gpu_memory_gib(T4) == 16
    assert gpu_memory_gib(PciIds(0x10DE, 0x2330)) == 80
    assert gpu_memory_gib(PciIds(0x15B3, 0x1EB8)) == 0
    assert gpu_memory_gib(PciIds(0x10DE, 0xFFFF)) == 0
