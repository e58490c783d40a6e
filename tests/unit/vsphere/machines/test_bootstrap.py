"""What a guest reads when it starts."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from laneway.api import ObjectMeta
from laneway.vsphere.machines.bootstrap import (
    BootstrapSecret,
    UnusableDataError,
    metadata,
    need_no_addresses,
    user_data,
)
from laneway.vsphere.port import FaultError


def secret(**data: str) -> BootstrapSecret:
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    return BootstrapSecret(metadata=ObjectMeta(name="one"), data=encoded)


def sent(devices: list[dict[str, Any]], *macs: str) -> Any:
    extra = metadata("one", devices, macs)
    assert extra["guestinfo.metadata.encoding"] == "base64"
    return json.loads(base64.b64decode(extra["guestinfo.metadata"]))


def test_user_data_are_on_standard_output() -> None:
    cloud = user_data(secret(value="#cloud-config", format="cloud-config"))
    assert base64.b64decode(cloud["guestinfo.userdata"]) == b"#cloud-config"
    ignition = user_data(secret(value="{}", format="ignition"))
    assert base64.b64decode(ignition["guestinfo.ignition.config.data"]) == b"{}"
    assert "guestinfo.userdata" not in ignition


@pytest.mark.parametrize(
    "data", [{}, {"value": ""}, {"value": "§"}, {"value": "YQ==", "format": "/"}]
)
def test_unusable_data_are_named_and_not_shown(data: dict[str, str]) -> None:
    broken = BootstrapSecret(metadata=ObjectMeta(name="one"), data=data)
    with pytest.raises(UnusableDataError, match="Secret one"):
        user_data(broken)
    assert "value" not in repr(broken)


def test_a_guest_knows_its_name_and_its_only_card() -> None:
    found = sent([{"networkName": "VM Network", "dhcp4": True}])
    assert found["local-hostname"] == found["instance-id"] == "one"
    assert found["network"]["ethernets"]["id0"]["dhcp4"]


def test_several_cards_are_distinguished_by_their_addresses_once_they_have_some() -> None:
    cards = [{"macAddr": f"00:50:56:00:00:0{at}", "ipAddrs": ["10.0.0.7/24"]} for at in range(2)]
    ethernets = sent(cards)["network"]["ethernets"]
    assert ethernets["id1"]["match"] == {"macaddress": "00:50:56:00:00:01"}
    assert ethernets["id1"]["addresses"] == ["10.0.0.7/24"]
    two = [{"dhcp4": True}, {"dhcp4": True, "deviceName": "rdma0"}]
    assert "network" not in sent(two)
    later = sent(two, "00:50:56:00:00:07", "00:50:56:00:00:08")["network"]["ethernets"]
    assert later["id0"]["match"] == {"macaddress": "00:50:56:00:00:07"}
    assert later["id1"]["match"] == {"macaddress": "00:50:56:00:00:08"}
    assert [later["id0"]["set-name"], later["id1"]["set-name"]] == ["eth0", "rdma0"]
    with pytest.raises(FaultError, match=r"network\.devices\[1\]"):
        sent(two, "00:50:56:00:00:07")


def test_a_card_that_is_to_have_a_name_is_found_by_its_address() -> None:
    assert "network" not in sent([{"deviceName": "lan"}])
    assert not need_no_addresses([("", "lan")])
    assert need_no_addresses([])


def test_a_guest_gets_all_settings_of_a_card() -> None:
    said = {
        "dhcp4": True,
        "dhcp4Overrides": {"useDNS": False, "routeMetric": 7, "sendHostname": True, "useMTU": None},
        "ipAddrs": ["10.0.0.7/24", "fd00::7/64"],
        "gateway4": "10.0.0.1",
        "gateway6": "fd00::1",
        "mtu": 9000,
        "nameservers": ["10.0.0.2"],
        "searchDomains": ["example.org"],
        "routes": [{"to": "10.1.0.0/16", "via": "10.0.0.3", "metric": 3}],
    }
    found = sent([said])
    assert found["wait-on-network"] == {"ipv4": True, "ipv6": True}
    assert found["network"]["ethernets"]["id0"] == {
        "match": {"name": "e*"},
        "dhcp4": True,
        "dhcp6": False,
        "dhcp4-overrides": {"use-dns": False, "route-metric": 7, "send-hostname": True},
        "addresses": ["10.0.0.7/24", "fd00::7/64"],
        "nameservers": {"addresses": ["10.0.0.2"], "search": ["example.org"]},
        "gateway4": "10.0.0.1",
        "gateway6": "fd00::1",
        "mtu": 9000,
        "routes": [{"to": "10.1.0.0/16", "via": "10.0.0.3", "metric": 3}],
    }
