"""`laneway explain` about objects, asked of a running Laneway with one simulated host."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from laneway.api import VGPUDevice, VSphereReservation
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.resource import served
from laneway.roles.admitting import unregister
from support.in_process import command

LANEWAY = [sys.executable, "-m", "laneway"]
VGPU = "sim-a2-1-000008004"

Explain = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """That of a Laneway which is up, with all devices published."""
    directory = tmp_path_factory.mktemp("laneway")
    up = [*LANEWAY, "up", "--data-dir", str(directory / "data"), "--simulate", "a2"]
    with (
        (directory / "stderr").open("w+") as errors,
        subprocess.Popen(
            [*up, "--no-local", "--port", "0", "--ui-port", "0"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        if not any("Laneway is ready" in line for line in process.stdout):
            errors.seek(0)
            pytest.fail(f"laneway up has ended: {errors.read()}")
        yield str(directory / "data" / "kubeconfig")
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait() == 0


@pytest.fixture
def explain(kubeconfig: str) -> Explain:
    def run(name: str) -> subprocess.CompletedProcess[str]:
        return command("explain", name, "--kubeconfig", kubeconfig)

    return run


@pytest.fixture
def process(kubeconfig: str) -> Explain:
    """The same as a process: a command has an event loop of its own, and a test may have one."""

    def run(name: str, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*LANEWAY, "explain", name, "--kubeconfig", kubeconfig, *options],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


@pytest.mark.parametrize("kind", ["vgpudevice", "vgpudevices", "VGPUDevice"])
def test_kind_may_be_written_in_every_way(explain: Explain, kind: str) -> None:
    done = explain(f"{kind}/{VGPU}")
    assert done.returncode == 0
    assert done.stdout.startswith(f"VGPUDevice {VGPU}\n")
    assert "NVIDIA A2-4Q: nvidia-746" in done.stdout
    assert "Ready: True" in done.stdout


def test_name_that_one_kind_has_needs_no_kind(explain: Explain) -> None:
    done = explain("sim-a2-1-000001000")
    assert done.stdout.startswith("PCIDevice sim-a2-1-000001000\n")


def test_agent_and_command_give_the_same_reason(explain: Explain) -> None:
    from_cluster = explain("pcidevice/sim-a2-1-000001000").stdout
    from_host = subprocess.run(
        [*LANEWAY, "explain", "01:00.0", "--simulate", "a2"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    reason = "critical to the node: holds the root file system"
    assert f"No: {reason}" in from_cluster
    assert f"- {reason}" in from_host


def test_name_that_several_kinds_have_is_asked_back(explain: Explain) -> None:
    done = explain(VGPU)
    assert done.returncode == 1
    assert f"pcidevice/{VGPU}, vgpudevice/{VGPU}" in done.stderr


def test_missing_object_says_where_to_look(explain: Explain) -> None:
    done = explain("usbdevice/nope")
    assert done.returncode == 1
    assert "no usbdevice/nope" in done.stderr
    assert "kubectl get usbdevices.devices.harvesterhci.io" in done.stderr


@pytest.mark.slow
async def test_an_object_of_any_namespace_is_found_unless_there_are_several(
    process: Explain, kubeconfig: str
) -> None:
    resource = served(VSphereReservation)
    body = {
        "apiVersion": resource.api_version,
        "kind": "VSphereReservation",
        "metadata": {"name": "gpu-1"},
        "spec": {"vCenter": "lab", "host": "host-21", "hostName": "esx1"},
    }
    async with Client(load(kubeconfig)) as client:
        await client.create(resource, body, "default")
        done = await asyncio.to_thread(process, "vspherereservation/gpu-1")
        assert done.stdout.startswith("VSphereReservation gpu-1\n"), done.stderr
        assert "esx1" in done.stdout
        await client.create(resource, body, "harvester-system")
        done = await asyncio.to_thread(process, "gpu-1")
        chosen = await asyncio.to_thread(process, "gpu-1", "-n", "default", "-o", "json")
        await client.delete(resource, "gpu-1", "default")
        await client.delete(resource, "gpu-1", "harvester-system")
    assert json.loads(chosen.stdout)["object"]["metadata"]["namespace"] == "default"
    assert done.returncode == 1
    assert "each of the namespaces default, harvester-system has a" in done.stderr


async def test_refused_desired_state_is_shown_with_its_condition_and_its_own_events(
    process: Explain, kubeconfig: str
) -> None:
    desired_states = {"sim-a2-1-000008005": "NVIDIA A2-98Q", "sim-a2-1-000008006": "NVIDIA A2-99Q"}
    async with Client(load(kubeconfig)) as client:
        await unregister(client)  # admission would not let such desired states in
        for name, profile in desired_states.items():
            desired = {"spec": {"enabled": True, "vGPUTypeName": profile}}
            await client.patch(served(VGPUDevice), name, desired)
    for name, profile in desired_states.items():
        while "\nEvents\n" not in (out := process(f"vgpudevice/{name}").stdout):
            pass
        assert f"Desired vGPU: {profile}; configured: none." in out
        assert "Ready: False (ProfileNotOffered)" in out
        [events] = [part for part in out.split("\n\n") if part.startswith("Events")]
        assert events.count("Warning ProfileNotOffered") == 1
        assert profile in events


@pytest.mark.slow
def test_interrupt_ends_without_a_traceback(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = tmp_path / "config"
        config.write_text(
            "current-context: c\ncontexts: [{name: c, context: {cluster: c}}]\n"
            "clusters: [{name: c, cluster: {server: "
            f"'http://127.0.0.1:{silent.getsockname()[1]}'}}}}]\n"
        )
        with subprocess.Popen(
            [*LANEWAY, "explain", "pcidevice/x", "--kubeconfig", str(config)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
