"""`laneway capacity`: what is in use, and what could start."""

from __future__ import annotations

import json
from typing import Any

import pytest

from laneway.api import SRIOVGPUDevice
from laneway.kube.resource import served
from support.commands import Laneway, plain


async def test_every_device_is_shown_with_who_has_it(objects: Any, laneway: Laneway) -> None:
    await objects.node("n1")
    await objects.node("n2", cordoned=True)
    await objects.vgpus("n1", 2, "runs")
    await objects.claim("n1", "000017000", allocation={"namespace": "default", "pod": "train"})
    await objects.claim("n1", "000018000")
    await objects.claim("n2", "000017000")
    await objects.usb_claim("n1", "n1-stick")
    await objects.vm("runs", [objects.small] * 2, running=True)
    await objects.instance("runs", [objects.small] * 2, "Running", "n1")
    await objects.pod("train", objects.card, "n1")
    await objects.vm("rests", [objects.card])
    await objects.vm("waits", [objects.small], running=True)
    done = await laneway("capacity")
    lines = [plain(line) for line in done.lines]
    assert lines == [
        "RESOURCE TOTAL HELD RESERVED WANTED FREE UNHEALTHY",
        "n1",
        "kubevirt.io/n1-stick 1 0 0 0 1 0",
        "nvidia.com/AD104GL_L4 2 1 1 0 0 0",
        "1 held by pod default/train",
        "1 reserved by the stopped VM default/rests",
        "nvidia.com/NVIDIA_A2-2Q 2 2 0 0 0 0",
        "2 held by VM default/runs",
        "n2 (the node is cordoned)",
        "nvidia.com/AD104GL_L4 1 0 0 0 0 1",
        "1 unavailable: the node is cordoned",
        "all 2 nodes",
        "kubevirt.io/n1-stick 1 0 0 0 1 0",
        "nvidia.com/AD104GL_L4 3 1 1 0 0 1",
        "nvidia.com/NVIDIA_A2-2Q 2 2 0 0 0 0",
        "VM default/waits cannot start: the cluster lacks 1 x nvidia.com/NVIDIA_A2-2Q",
    ]
    assert done.err == ""


@pytest.mark.slow
async def test_devices_are_listed_one_by_one(objects: Any, laneway: Laneway) -> None:
    why = "The device fell off the bus."
    lost = {"type": "Advertised", "status": "False", "reason": "Gone", "message": why}
    stamp = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    await objects.node("n1")
    await objects.claim("n1", "000017000", conditions=[lost | stamp])
    await objects.claim("n1", "000018000")
    await objects.vm("rests", [objects.card])
    shown = plain((await laneway("capacity", "--devices", "--node", "n1")).out)
    assert "n1-000017000: unhealthy: The device fell off the bus n1-000018000: reserved" in shown
    assert "n1-000018000: reserved by the stopped VM default/rests" in shown


@pytest.mark.slow
async def test_programs_get_the_same_as_json(objects: Any, laneway: Laneway) -> None:
    await objects.node("n1")
    await objects.vgpus("n1", 1, "runs")
    await objects.vm("waits", [objects.small], running=True)
    reported = json.loads((await laneway("capacity", "-o", "json", "--devices")).out)
    [stock] = reported["resources"]
    runs = {"kind": "VirtualMachine", "namespace": "default", "name": "runs"}
    assert (stock["node"], stock["resource"], stock["held"], stock["free"]) == (
        "n1",
        objects.small,
        1,
        0,
    )
    assert stock["holders"] == [{**runs, "state": "held", "devices": 1}]
    [device] = stock["devices"]
    assert (device["name"], device["holder"]) == ("n1-000008000", runs)
    [short] = reported["short"]
    assert (short["name"], short["missing"]) == ("waits", {objects.small: 1})


@pytest.mark.slow
async def test_a_device_of_a_stopped_vm_is_refused_to_another_with_its_name(
    objects: Any, laneway: Laneway
) -> None:
    await objects.node("n1")
    await objects.vgpus("n1", 1)
    await objects.vm("rests", [objects.small])
    done = await laneway("capacity", "A2-2Q", status=3)
    assert done.lines[0] == ("No: there is no room for 1 VM with 1 x nvidia.com/NVIDIA_A2-2Q.")
    assert (
        "InsufficientDevices: nvidia.com/NVIDIA_A2-2Q: 1 requested on one node; " in done.lines[1]
    )
    assert "(1 reserved by the stopped VM default/rests)" in done.lines[1]
    assert done.err == ""


@pytest.mark.slow
async def test_the_stopped_vm_itself_may_start(objects: Any, laneway: Laneway) -> None:
    await objects.node("n1")
    await objects.vgpus("n1", 1)
    await objects.vm("rests", [objects.small])
    done = await laneway("capacity", "A2-2Q", "--replacing", "default/rests")
    assert done.lines[0].startswith("Yes: ")
    assert "  1 of 1 stays as it is" in done.lines


async def test_a_vm_is_explained_by_what_it_has_and_lacks(objects: Any, laneway: Laneway) -> None:
    await objects.node("n1")
    await objects.vgpus("n1", 1, "runs")
    await objects.vm("runs", [objects.small], running=True)
    await objects.instance("runs", [objects.small], "Running", "n1")
    await objects.vm("waits", [objects.small], running=True)

    runs = plain((await laneway("explain", "vm/runs")).out)
    assert f"held: n1-000008000 ({objects.small}) on n1" in runs
    assert runs.endswith("Can it start? It runs.")
    waits = json.loads((await laneway("explain", "vm/waits", "-n", "default", "-o", "json")).out)
    assert (waits["canStart"], waits["requests"]) == (False, {objects.small: 1})
    assert waits["refusals"][0]["message"] in (await laneway("explain", "vm/waits")).out
    assert "Did you mean waits?" in (await laneway("explain", "vm/wait", status=1)).err


@pytest.mark.slow
async def test_a_vm_that_finds_room_can_start_on_whatever_node(
    objects: Any, laneway: Laneway
) -> None:
    await objects.node("n1")
    await objects.vgpus("n1", 1)
    await objects.vm("rests", [objects.small])
    assert (await laneway("explain", "vm/rests")).out.strip().endswith("Yes.")


@pytest.mark.slow
async def test_a_pool_is_asked_about_as_a_whole(objects: Any, laneway: Laneway) -> None:
    await objects.node("n1")
    await objects.vgpus("n1", 3)
    for name in ("web-1", "web-2"):
        await objects.vm(name, [objects.small], labels={"pool": "web"})
    pool = ("--replacing", "default/pool=web")
    done = await laneway("capacity", "A2-2Q", *pool, "--vms", "3")
    assert "  requests 1 x nvidia.com/NVIDIA_A2-2Q more than now" in done.lines
    # At once they release what is kept for them; one by one there is no room for a third.
    await laneway("capacity", "A2-2Q=2", *pool, "--vms", "1")
    done = await laneway("capacity", "A2-2Q=2", *pool, "--surge", "1", status=3)
    assert "RolloutBlocked" in done.out
    reported = json.loads((await laneway("capacity", "A2-2Q=9", "-o", "json", status=3)).out)
    assert reported["answer"] is False
    assert reported["refusals"][0]["reason"] == "InsufficientDevices"


@pytest.mark.slow
async def test_how_to_configure_a_profile_that_no_gpu_has_yet(bare: Any, laneway: Laneway) -> None:
    for name, status in (
        ("n1", {"fits": {"NVIDIA A2-8Q": 2}, "configured": {"NVIDIA A2-2Q": 1}}),
        ("n2", {"fits": {"NVIDIA A2-8Q": 2}}),
    ):
        spec = {"address": "0000:08:00.0", "nodeName": name, "enabled": True}
        await bare.put(served(SRIOVGPUDevice), f"{name}-000008000", spec=spec, status=status)
    done = await laneway("capacity", "A2-8Q=2", status=3)
    assert done.lines[0] == "No: there is no room for 1 VM with 2 x nvidia.com/NVIDIA_A2-8Q."
    command = "laneway vgpu set n2/0000:08:00.0 A2-8Q=2"
    assert done.lines[-1] == f"  n2/0000:08:00.0 has room: {command}"
    done = await laneway("capacity", "A2-8Q=3", status=3)
    assert done.lines[-1].endswith("To configure such a vGPU: laneway vgpu set NODE/ADDRESS A2-8Q")


@pytest.mark.slow
async def test_without_kubevirt_there_are_pods_only(bare: Any, laneway: Laneway) -> None:
    await bare.node("n1")
    await bare.claim("n1", "000017000")
    await bare.pod("train", bare.card, "n1")
    done = await laneway("capacity")
    assert "1 held by pod default/train" in plain(done.out)
    assert done.err == ""


@pytest.mark.slow
async def test_a_cluster_without_devices_says_so(bare: Any, laneway: Laneway) -> None:
    done = await laneway("capacity")
    assert done.out.startswith("No device is available to VMs.")
    done = await laneway("capacity", "nvidia.com/X", status=3)
    assert "ResourceNotFound" in done.out


@pytest.mark.slow
async def test_what_is_not_there_is_reported_in_one_line(objects: Any, laneway: Laneway) -> None:
    await objects.node("n1")
    await objects.claim("n1", "000017000")
    for wrong in (
        ["--node", "n9"],
        ["L9"],
        ["AD104GL_L4", "--replacing", "default/nobody"],
        ["AD104GL_L4", "--replacing", "nonsense"],
    ):
        done = await laneway("capacity", *wrong, status=1)
        assert (done.out, len(done.err.splitlines())) == ("", 1)
        assert done.err.startswith("laneway: ")
    for wrong in (
        ["--vms", "2"],
        ["L4", "--devices"],
        ["L4=0"],
        ["L4", "--selector", "nonsense"],
        ["L4", "--replacing", "default/x", "--unavailable", "0"],
    ):
        await laneway("capacity", *wrong, status=2)
