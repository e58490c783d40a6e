"""Virtual VMs with devices on `laneway up --simulate`, made and looked at with kubectl."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.processes import SECONDS, Laneway, environment

_BESIDE = Path(sys.executable).parent / "kubectl"
KUBECTL = shutil.which("kubectl") or (str(_BESIDE) if _BESIDE.exists() else "")
pytestmark = pytest.mark.skipif(not KUBECTL, reason="kubectl is not installed")

SPEC = ("--no-local", "--simulate", "a2", "--simulate", "plain", "--ui-port", "0", "--port", "0")
READY = "Stop with Ctrl-C."
VGPUS = ("sim-a2-1-000008004", "sim-a2-1-000008005")
NIC = "sim-a2-1-000004001"
VGPU = "nvidia.com/NVIDIA_A2-2Q"
FUNCTION = "intel.com/I350_GIGABIT_NETWORK_CONNECTION"

Kubectl = Callable[..., str]


def claim(uid: str) -> str:
    return f"""
apiVersion: devices.harvesterhci.io/v1beta1
kind: PCIDeviceClaim
metadata:
  name: {NIC}
  ownerReferences:
  - {{apiVersion: devices.harvesterhci.io/v1beta1, kind: PCIDevice, name: {NIC}, uid: {uid}}}
spec: {{address: "0000:04:00.1", nodeName: sim-a2-1, userName: ""}}
"""


def vm(name: str, gpus: int, nics: int = 0) -> str:
    vgpus = [f"{{name: gpu{number}, deviceName: {VGPU}}}" for number in range(gpus)]
    functions = [f"{{name: nic, deviceName: {FUNCTION}}}"] * nics
    return f"""
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {{name: {name}}}
spec:
  runStrategy: Always
  template:
    metadata:
      labels: {{harvesterhci.io/vmName: {name}}}
    spec:
      domain:
        cpu: {{cores: 2}}
        memory: {{guest: 2Gi}}
        devices:
          disks:
          - {{name: root, disk: {{bus: virtio}}}}
          gpus: [{", ".join(vgpus)}]
          hostDevices: [{", ".join(functions)}]
      volumes:
      - {{name: root, containerDisk: {{image: debian}}}}
"""


@pytest.fixture
def start() -> Iterator[Callable[[Path], Laneway]]:
    started: list[Laneway] = []

    def start(data_dir: Path) -> Laneway:
        up = Laneway("up", *SPEC, "--data-dir", str(data_dir))
        started.append(up)
        up.until(READY)
        return up

    yield start
    for one in started:
        one.end(signal.SIGKILL)


@pytest.fixture
def kubectl(tmp_path: Path) -> Kubectl:
    def run(*arguments: str, stdin: str = "", status: int = 0) -> str:
        done = subprocess.run(
            [KUBECTL, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            env=environment(KUBECONFIG=str(tmp_path / "kubeconfig")),
        )
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    return run


@pytest.fixture
def capacity(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        config = str(tmp_path / "kubeconfig")
        return subprocess.run(
            [sys.executable, "-m", "laneway", "capacity", *arguments, "--kubeconfig", config],
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            env=environment(),
        )

    return run


def rows(shown: str) -> list[list[str]]:
    return [line.split() for line in shown.splitlines()[1:]]


def wait(kubectl: Kubectl, what: str, condition: str) -> None:
    kubectl("wait", what, f"--for={condition}", f"--timeout={SECONDS:g}s")


@pytest.mark.slow
def test_vm_with_devices_outlives_laneway_and_gives_them_back(
    start: Callable[[Path], Laneway],
    kubectl: Kubectl,
    capacity: Callable[..., subprocess.CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    up = start(tmp_path)
    for name in VGPUS:
        desired = '{"spec":{"enabled":true,"vGPUTypeName":"NVIDIA A2-2Q"}}'
        kubectl("patch", "vgpudevice", name, "--type", "merge", "-p", desired)
    uid = kubectl("get", "pcidevice", NIC, "-o", "jsonpath={.metadata.uid}")
    kubectl("apply", "-f", "-", stdin=claim(uid))
    for name in VGPUS:
        wait(kubectl, f"vgpudevice/{name}", "condition=Advertised")
    wait(kubectl, f"pcideviceclaim/{NIC}", "condition=Ready")

    kubectl("apply", "-f", "-", stdin=vm("vm1", 2, 1))
    wait(kubectl, "vm/vm1", "jsonpath={.status.printableStatus}=Running")
    assert [row[2:] for row in rows(kubectl("get", "vm"))] == [["Running", "True"]]
    [[name, _, phase, node, ready]] = rows(kubectl("get", "vmi"))
    assert (name, phase, node, ready) == ("vm1", "Running", "sim-a2-1", "True")
    [[pod, ready, phase, *_]] = rows(kubectl("get", "pods"))
    assert pod.startswith("virt-launcher-vm1-")
    assert (ready, phase) == ("1/1", "Running")
    before = kubectl("get", "vm", "vm1", "-o", "jsonpath={.metadata.generation}")
    kubectl("apply", "-f", "-", stdin=vm("vm1", 2, 1))
    assert kubectl("get", "vm", "vm1", "-o", "jsonpath={.metadata.generation}") == before

    # One more is one too many: refused where it is to run, and else it waits and says so.
    said = kubectl("apply", "-f", "-", stdin=vm("vm2", 1), status=1)
    assert f"{VGPU}: 1 requested on one node; node sim-a2-1 has 0 free of 2" in said
    not_before = vm("vm2", 1).replace("runStrategy: Always", "runStrategy: Halted")
    kubectl("apply", "-f", "-", stdin=not_before)
    kubectl("patch", "vm", "vm2", "--type", "merge", "-p", '{"spec":{"runStrategy":"Always"}}')
    wait(kubectl, "vm/vm2", "jsonpath={.status.printableStatus}=ErrorUnschedulable")
    assert "0/2 nodes are available: 2 Insufficient nvidia.com/NVIDIA_A2-2Q." in kubectl(
        "describe", "vm", "vm2"
    )

    counted = {
        row["resource"]: (row["total"], row["held"], row["free"])
        for row in json.loads(capacity("-o", "json").stdout)["resources"]
        if row["node"] == "sim-a2-1"
    }
    assert counted == {VGPU: (2, 2, 0), FUNCTION: (1, 1, 0)}
    listed = capacity("--devices").stdout
    assert all(name in listed for name in (*VGPUS, NIC, "default/vm1"))
    asked = capacity("A2-2Q")
    assert (asked.returncode, VGPU in asked.stdout) == (3, True), asked

    # The VM does not notice that Laneway was killed and started again.
    up.end(signal.SIGKILL)
    again = start(tmp_path)
    before = kubectl("get", "vmi", "vm1", "-o", "jsonpath={.metadata.uid} {.status.phase}")
    wait(kubectl, f"pcideviceclaim/{NIC}", "condition=Ready")
    allocation = kubectl(
        "get", "pcideviceclaim", NIC, "-o", "jsonpath={.status.allocation.virtualMachine}"
    )
    assert allocation == "vm1"
    after = kubectl("get", "vmi", "vm1", "-o", "jsonpath={.metadata.uid} {.status.phase}")
    assert after == before
    assert after.endswith(" Running")

    kubectl("delete", "vm", "vm1")
    assert "not found" in kubectl("get", "vmi", "vm1", status=1)
    wait(kubectl, "vm/vm2", "jsonpath={.status.printableStatus}=Running")
    kubectl("delete", "vm", "vm2")
    assert "No resources found" in kubectl("get", "pods")
    kubectl("delete", "pcideviceclaim", NIC)
    driver = kubectl("get", "pcidevice", NIC, "-o", "jsonpath={.status.kernelDriverInUse}")
    assert driver == "igb"
    assert again.end() == 0


@pytest.mark.slow
def test_kubectl_explains_vms_and_refuses_what_is_none(
    start: Callable[[Path], Laneway], kubectl: Kubectl, tmp_path: Path
) -> None:
    start(tmp_path)
    explained = kubectl("explain", "vm.spec.template.spec.domain.devices.gpus")
    assert "deviceName\t<string>" in explained
    wrong = vm("vm1", 1).replace("deviceName:", "device:")
    assert 'unknown field "spec.template.spec.domain.devices.gpus[0].device"' in kubectl(
        "apply", "-f", "-", stdin=wrong, status=1
    )
    kubevirt = kubectl("get", "kubevirt", "-n", "harvester-system")
    assert [row[::2] for row in rows(kubevirt)] == [["kubevirt", "Deployed"]]
    described = kubectl("get", "nodes", "sim-plain-1")
    assert rows(described)[0][1] == "Ready"
