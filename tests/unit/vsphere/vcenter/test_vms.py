"""What a guest tells of its addresses, and what of it is a machine's."""

from __future__ import annotations

import pytest
from pyVmomi import vim

from laneway.vsphere.vcenter.vms import vm_state

MAC = "00:50:56:AB:cd:01"
OTHER = "00:50:56:ab:cd:02"


def addresses(main: str | None, **reported: list[str]) -> tuple[str, ...]:
    """Of a VM with two cards; `reported` by interface: `one`, `two`, `docker`, `mute`."""
    macs = {"one": MAC.lower(), "two": OTHER, "docker": "02:42:ac:11:00:01", "mute": None}
    cards = [
        vim.vm.device.VirtualVmxnet3(key=4000 + at, macAddress=mac)
        for at, mac in enumerate((MAC, OTHER))
    ]
    nets = [
        vim.vm.GuestInfo.NicInfo(macAddress=macs[name], ipAddress=those)
        for name, those in reported.items()
    ]
    props = {
        "name": "one",
        "config.hardware.device": cards,
        "guest.net": nets,
        "guest.ipAddress": main,
    }
    return vm_state("vm-1", props, {}).addresses


def test_those_of_all_cards_count_and_the_main_one_is_the_first() -> None:
    assert addresses("10.0.1.7", one=["10.0.0.7", "2001:db8::7"], two=["10.0.1.7"]) == (
        "10.0.1.7",
        "10.0.0.7",
        "2001:db8::7",
    )


def test_what_is_on_no_card_of_the_vm_does_not() -> None:
    assert addresses("172.17.0.1", docker=["172.17.0.1"], one=["10.0.0.7"]) == ("10.0.0.7",)
    assert addresses("10.0.0.7", mute=["10.0.0.7"]) == ()


@pytest.mark.parametrize(
    "local",
    ["fe80::1", "fe80::1%eth0", "169.254.1.2", "127.0.0.1", "::1", "0.0.0.0", "::", "ff02::1", "?"],
)
def test_what_no_other_reaches_does_not(local: str) -> None:
    assert addresses(local, one=[local]) == ()
    assert addresses(local, one=[local, "10.0.0.7"]) == ("10.0.0.7",)
