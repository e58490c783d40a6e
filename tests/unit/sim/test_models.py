"""Every built-in model is a server that could stand in a rack."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from laneway.core.pci import PciAddress
from laneway.sim.dump import parse, render
from laneway.sim.host import SimulatedHost
from laneway.sim.models import MODELS
from laneway.sim.spec import build, parse_spec

PCI = "/sys/bus/pci/devices"


@pytest.fixture(params=sorted(MODELS))
def host(request: pytest.FixtureRequest) -> SimulatedHost:
    return build(parse_spec(request.param), "node")


def text(host: SimulatedHost, path: str) -> str:
    return host.read(path).decode().strip()


def with_id(host: SimulatedHost, vendor: str, device: str) -> list[str]:
    return sorted(
        name
        for name in host.names(PCI)
        if text(host, f"{PCI}/{name}/vendor") == f"0x{vendor}"
        and text(host, f"{PCI}/{name}/device") == f"0x{device}"
    )


def test_every_link_leads_somewhere(
    host: SimulatedHost, host_files: Callable[[SimulatedHost], dict[str, str | bytes]]
) -> None:
    links = [path for path, value in host_files(host).items() if str(value).startswith("-> ")]
    assert links
    assert [link for link in links if not host.exists(link)] == []


def test_every_function_is_in_one_group_and_has_sound_attributes(host: SimulatedHost) -> None:
    members = [
        member
        for group in host.names("/sys/kernel/iommu_groups")
        for member in host.names(f"/sys/kernel/iommu_groups/{group}/devices")
    ]
    assert sorted(members) == sorted(host.names(PCI))
    taken: list[tuple[int, int]] = []
    for name in host.names(PCI):
        PciAddress.parse(name)
        assert text(host, f"{PCI}/{name}/numa_node") in ("0", "1")
        for line in text(host, f"{PCI}/{name}/resource").splitlines():
            start, end, flags = (int(word, 16) for word in line.split())
            assert bool(flags) == bool(end)
            if flags:
                taken.append((start, end))
    taken.sort()
    assert all(low_end < high_start for (_, low_end), (high_start, _) in pairwise(taken))


def test_functions_sit_where_their_path_says(host: SimulatedHost) -> None:
    """Buses below a root bus have higher numbers, and no two devices have one address."""
    for name in host.names(PCI):
        parts = host.resolve(f"{PCI}/{name}").split("/")
        assert parts[3] <= f"pci{name[:7]}"
        buses = [part[5:7] for part in parts[4:]]
        assert buses == sorted(buses)


def test_sriov_links_agree(host: SimulatedHost) -> None:
    for name in host.names(PCI):
        names = host.names(f"{PCI}/{name}")
        functions = [link for link in names if link.startswith("virtfn")]
        if "sriov_numvfs" in names:
            assert len(functions) == int(text(host, f"{PCI}/{name}/sriov_numvfs"))
        for link in functions:
            physical = host.resolve(f"{PCI}/{name}/{link}/physfn")
            assert physical == host.resolve(f"{PCI}/{name}")


def test_the_node_has_a_boot_disk_a_default_route_and_a_console(host: SimulatedHost) -> None:
    root = next(
        line.split()[2]
        for line in text(host, "/proc/self/mountinfo").splitlines()
        if line.split()[4] == "/"
    )
    assert "/nvme/nvme0/" in host.resolve(f"/sys/dev/block/{root}")
    assert "nvme0n1p2" in host.names("/sys/class/block")
    assert "nvme0n1p2" not in host.names("/sys/block")
    route = text(host, "/proc/net/route").splitlines()[1].split()
    assert route[:2] == ["eno1", "00000000"]
    assert "0000:04:00.0" in host.resolve("/sys/class/net/eno1")
    assert text(host, "/sys/class/tty/console/active") == "tty0"
    swap = text(host, "/proc/swaps").splitlines()[1].split()[0]
    assert host.exists(swap)
    boot_display = [name for name in host.names(PCI) if host.exists(f"{PCI}/{name}/boot_vga")]
    framebuffer = host.resolve("/sys/class/graphics/fb0")
    if "/platform/" in framebuffer:
        assert boot_display == ["0000:08:00.0"]
        assert text(host, "/sys/class/vtconsole/vtcon1/bind") == "1"
    else:
        assert boot_display == ["0000:03:00.0"]
        assert "/0000:03:00.0/" in framebuffer


def test_the_hosts_name_is_the_one_given() -> None:
    assert text(build(parse_spec("a2"), "rack-7"), "/proc/sys/kernel/hostname") == "rack-7"


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_model_can_be_written_as_a_dump(name: str) -> None:
    blocks = MODELS[name]().blocks
    assert parse(render(blocks)) == blocks


@pytest.mark.parametrize(
    ("name", "device", "cards", "functions"),
    [
        ("a2", "25b6", 1, 16),
        ("l40s", "26b9", 2, 32),
        ("a100", "20f1", 4, 16),
        ("hgx-h100", "2330", 8, 20),
    ],
)
def test_gpu_models_have_their_gpus(name: str, device: str, cards: int, functions: int) -> None:
    host = build(parse_spec(name), "node")
    found = with_id(host, "10de", device)
    physical = [gpu for gpu in found if gpu.endswith("00.0")]
    assert len(physical) == cards
    assert len(found) == cards * (1 + functions)
    assert text(host, "/sys/module/nvidia/version")
    for gpu in physical:
        assert text(host, f"{PCI}/{gpu}/sriov_vf_device") == device


def test_the_a2_is_where_the_real_one_is() -> None:
    host = build(parse_spec("a2"), "node")
    assert host.resolve(f"{PCI}/0000:08:00.0").endswith("pci0000:00/0000:00:03.0/0000:08:00.0")
    assert sorted(host.names("/sys/class/mdev_bus"))[::15] == ["0000:08:00.4", "0000:08:02.3"]


@pytest.mark.slow
def test_an_hgx_has_nvswitches_and_a_network_card_for_every_gpu() -> None:
    host = build(parse_spec("hgx-h100"), "node")
    assert len(with_id(host, "10de", "22a3")) == 4
    cards = with_id(host, "15b3", "1021")
    assert len(cards) == 8
    switches = {host.resolve(f"{PCI}/{card}").split("/")[5] for card in cards}
    gpus = [gpu for gpu in with_id(host, "10de", "2330") if gpu.endswith("00.0")]
    assert {host.resolve(f"{PCI}/{gpu}").split("/")[5] for gpu in gpus} == switches


def test_the_plain_server_has_no_gpu_but_sriov_network_cards() -> None:
    host = build(parse_spec("plain"), "node")
    assert not host.exists("/sys/module/nvidia")
    totals = {
        text(host, f"{PCI}/{card}/sriov_totalvfs")
        for card in with_id(host, "8086", "159b") + with_id(host, "8086", "1572")
    }
    assert totals == {"128", "64"}
    assert "1-4" in host.names("/sys/bus/usb/devices")
