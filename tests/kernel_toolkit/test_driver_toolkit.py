"""The driver toolkit installs packages of NVIDIA's shape on a real kernel, from a real HTTP server.

The node is a guest with GPUs and without a driver. A package builds its modules from source against
the headers of the guest's kernel, so this takes what it takes on a node, times ten.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.driver_nodes import RELEASE, Node, Packages, wait_until

GPU = Path("/sys/bus/pci/devices/0000:08:00.0")
VERSION = Path("/sys/module/nvidia/version")


def version() -> str:
    return VERSION.read_text().strip() if VERSION.exists() else ""


def create_vgpu() -> Path:
    """A vGPU on the first VF, made as the agent makes it; what is written to for its end."""
    (GPU / "sriov_numvfs").write_text("1")
    file = GPU / "virtfn0/nvidia/current_vgpu_type"
    kinds = (GPU / "virtfn0/nvidia/creatable_vgpu_types").read_text().splitlines()
    file.write_text(kinds[1].partition(":")[0].strip())
    return file


def test_what_is_wrong_is_told_and_nothing_is_changed(node: Node) -> None:
    wrong = node.start("535.54.01", "small", DRIVER_SHA256="0a" * 32).fails()
    assert "HashMismatch" in wrong

    absent = node.start("535.54.01", "small", DRIVER_LOCATION=f"{node.url}/absent.run").fails()
    assert "PackageNotFound" in absent

    without = node.start("535.54.01", "small").fails()
    assert "HeadersMissing" in without
    assert f"linux-headers-{RELEASE}" in without
    assert version() == ""


@pytest.mark.usefixtures("headers")
def test_a_build_that_fails_is_told_in_the_words_of_the_compiler(node: Node) -> None:
    built = node.start("535.54.02", "uncompiled")

    assert "BuildFailed" in built.fails()
    assert "no_such_thing" in built.state.message


@pytest.mark.usefixtures("headers")
def test_the_life_of_a_driver(node: Node) -> None:
    # Killed while its modules are built, after a download that was cut off.
    Packages.cut = 1
    first = node.start("550.90.05", "gpu")
    first.becomes("Installing")
    wait_until(first.compiles)
    first.kill()
    assert [one.partition(" ")[2][:6] for one in Packages.requests] == ["", "bytes="]
    assert version() == ""

    # Started again, it installs from the node's own copy, and is ready once the driver answers.
    second = node.start("550.90.05", "gpu")
    assert not second.is_ready()
    second.becomes("Ready")
    assert second.is_ready()
    assert len(Packages.requests) == 2
    assert version() == "550.90.05"
    assert "GPU 0" in second.run("nvidia-smi", "-L").stdout
    assert second.run("test", "-x", "/usr/lib/nvidia/sriov-manage").returncode == 0
    assert not Path("/usr/lib/nvidia/sriov-manage").exists()
    assert not list(Path(f"/lib/modules/{RELEASE}").rglob("nvidia.ko"))
    vgpu = create_vgpu()

    # The next container finds the driver in use, and leaves it where it is.
    second.kill()
    third = node.start("550.90.05", "gpu")
    third.becomes("Ready")
    assert third.is_ready()
    assert not third.path("/run/builds").exists()
    assert vgpu.read_text().strip() != "0"

    # An upgrade waits for the vGPU, and the driver serves meanwhile.
    third.stop()
    fourth = node.start("570.133.20", "small")
    fourth.becomes("Waiting")
    assert fourth.state.reason == "DriverInUse"
    assert "vGPU" in fourth.state.message
    assert fourth.is_ready()
    assert version() == "550.90.05"
    vgpu.write_text("0")
    fourth.becomes("Ready")
    assert version() == "570.133.20"
    fourth.stop()

    # One that fails goes back to the driver before it, whose modules the node has.
    fifth = node.start("580.65.05", "unloaded")
    fifth.becomes("Failed")
    assert fifth.state.reason == "LoadFailed"
    assert "no GPU that this driver knows" in fifth.state.message
    assert len(fifth.path("/run/builds").read_text().splitlines()) == 1
    assert fifth.is_ready()
    assert version() == "570.133.20"
    kept = sorted(path for path in os.listdir(node.state) if len(path) == 64)
    assert len(kept) == 3
