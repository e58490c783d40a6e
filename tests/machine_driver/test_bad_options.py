"""Options that cannot be right are refused before anything is asked of Harvester."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from laneway.core.machine_pools.device_info import VGPUS, DeviceInfoError, read
from support.machine_driver import Machines, vgpus

RESOURCE = "nvidia.com/NVIDIA_A2-4Q"
NAME = "guest-gpu-7xk2p-4fw9d"
IN_BOTH = (
    f"{RESOURCE} is in vgpuInfo and in hostDeviceInfo. A VM requests a resource in one of them"
)
NO_RESOURCE = (
    'vgpuInfo: entry 1: deviceName "NVIDIA A2-4Q" is not the name of a resource, such as '
    "nvidia.com/NVIDIA_A2-4Q"
)
EMPTY = (
    "kubeconfigContent is empty: give the kubeconfig of the Harvester cluster, or choose a cloud "
    "credential that has it"
)
NO_AFFINITY = (
    "vmAffinity is not JSON: invalid character 'x' looking for beginning of value (byte 1)"
)
AFFINITY_FORM = "vmAffinity is not a JSON object with nodeAffinity, podAffinity or podAntiAffinity"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
LONG = "a" * 65537
REFUSED = "error setting machine configuration from flags provided: "


def devices(*entries: Any) -> str:
    return json.dumps({"vGPURequests": [*entries]})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"vgpu_info": "{"}, "vgpuInfo is not JSON: unexpected EOF"),
        ({"vgpu_info": "{}x"}, "vgpuInfo is not JSON: there is more after its end"),
        ({"vgpu_info": "[]"}, "vgpuInfo is not a JSON object with a list vGPURequests"),
        ({"vgpu_info": '{"vGPURequests":3}'}, "vgpuInfo: vGPURequests is not a list"),
        (
            {"vgpu_info": devices({"deviceName": RESOURCE}, {})},
            "vgpuInfo: entry 2 has no deviceName",
        ),
        (
            {"vgpu_info": devices("a")},
            "vgpuInfo: entry 1 is not a JSON object with name and deviceName",
        ),
        (
            {"vgpu_info": devices({"deviceName": "NVIDIA A2-4Q"})},
            NO_RESOURCE,
        ),
        (
            {"vgpu_info": devices({"deviceName": RESOURCE, "name": 3})},
            "vgpuInfo: entry 1: name is not a string",
        ),
        (
            {"vgpu_info": devices({"deviceName": RESOURCE, "count": 65})},
            "vgpuInfo: entry 1: count is not a number of 1 to 64",
        ),
        (
            {"vgpu_info": devices(*[{"deviceName": RESOURCE, "count": 40}] * 2)},
            "vgpuInfo requests 80 devices for each machine; the most is 64",
        ),
        (
            {"host_device_info": '{"hostDevices":[{}]}'},
            "hostDeviceInfo: entry 1 has no deviceName",
        ),
        (
            {
                "vgpu_info": devices({"deviceName": RESOURCE}),
                "host_device_info": json.dumps({"hostDevices": [{"deviceName": RESOURCE}]}),
            },
            IN_BOTH,
        ),
        (
            {"disk_info": '{"disks":[{"size":1}]}'},
            "diskInfo: disk 1 has neither imageName nor storageClassName",
        ),
        (
            {"disk_info": '{"disks":[{"imageName":"default/a"}]}'},
            "diskInfo: disk 1 has no size: give it in GiB",
        ),
        (
            {"disk_info": '{"disks":[{"size":"big"}]}'},
            "diskInfo: disks.size is a string, not an integer",
        ),
        ({"disk_info": "null"}, "diskInfo has no disks"),
        ({"disk_info": "[]"}, "diskInfo is a list, not a JSON object"),
        ({"disk_info": '{"disks":{}}'}, "diskInfo: disks is a JSON object, not a list"),
        ({"disk_info": '{"disks":[3]}'}, "diskInfo: disks is a number, not a JSON object"),
        (
            {"disk_info": '{"disks":[null]}'},
            "diskInfo: disk 1 has neither imageName nor storageClassName",
        ),
        (
            {"disk_info": '{"disks":[{"size":1.5}]}'},
            "diskInfo: disks.size is a number, not an integer",
        ),
        (
            {"disk_info": '{"disks":[{"bootOrder":-1}]}'},
            "diskInfo: disks.bootOrder is a number, not an integer of 0 or more",
        ),
        (
            {"disk_info": '{"disks":[{"hotPlugAble":"x"}]}'},
            "diskInfo: disks.hotPlugAble is a string, not true or false",
        ),
        ({"network_info": "null"}, "networkInfo has no interfaces"),
        ({"network_info": "3"}, "networkInfo is a number, not a JSON object"),
        (
            {"network_info": '{"interfaces":[{"model":[]}]}'},
            "networkInfo: interfaces.model is a list, not a string",
        ),
        ({"network_info": '{"interfaces":[null]}'}, "networkInfo: interface 1 has no networkName"),
        ({"network_info": "{}"}, "networkInfo has no interfaces"),
        (
            {"network_info": '{"interfaces":[{}]}'},
            "networkInfo: interface 1 has no networkName",
        ),
        ({"image_name": ""}, "the machine has no disk: set diskInfo, or imageName and diskSize"),
        ({"network_name": ""}, "the machine has no network: set networkInfo, or networkName"),
        (
            {"network_name": "../../secrets/x"},
            'networkName "../../secrets/x" is not a name, nor NAMESPACE/NAME',
        ),
        ({"vm_namespace": "a/b"}, 'vmNamespace "a/b" is not the name of a namespace'),
        ({"enable_secure_boot": True}, "enableSecureBoot needs enableEfi"),
        (
            {"key_pair_name": "default/operator"},
            "keyPairName needs sshPrivateKeyPath, the file of the key pair's private key",
        ),
        (
            {"user_data": "#!/bin/sh\necho geheim"},
            "userData is not a cloud-config: it has to be a mapping as YAML",
        ),
        ({"network_data": "config: []"}, "networkData has no version"),
        (
            {"network_data": "version: 1\nconfig: [{type: physical, subnets: [{type: static}]}]"},
            "networkData has neither a gateway nor DHCP",
        ),
        ({"network_data": "null"}, "networkData has no version"),
        ({"vm_affinity": "x"}, NO_AFFINITY),
        ({"vm_affinity": "null"}, AFFINITY_FORM),
        ({"vm_affinity": "[]"}, AFFINITY_FORM),
        ({"vm_affinity": "{} {}"}, "vmAffinity is not JSON: there is more after its end"),
        (
            {"vm_affinity": '{"podAntiAffinity":[]}'},
            "vmAffinity: podAntiAffinity is not a JSON object",
        ),
        (
            {"vm_affinity": json.dumps({"podAntiAffinity": {PREFERRED: {}}})},
            f"vmAffinity: podAntiAffinity.{PREFERRED} is not a list",
        ),
        (
            {"vm_affinity": json.dumps({"podAffinity": {REQUIRED: [{}, None]}})},
            f"vmAffinity: podAffinity.{REQUIRED}: entry 2 is not a JSON object",
        ),
        (
            {"vm_affinity": json.dumps({"nodeAffinity": {REQUIRED: []}})},
            f"vmAffinity: nodeAffinity.{REQUIRED} is not a JSON object",
        ),
        ({"cluster_name": "a,b"}, 'clusterName "a,b" is not the name of a guest cluster'),
        ({"user_data": LONG}, "userData has 65537 bytes; the most is 65536"),
        ({"kubeconfig_content": LONG}, "kubeconfigContent has 65537 bytes; the most is 65536"),
        (
            {"ssh_private_key_path": LONG},
            "sshPrivateKeyPath has 65537 bytes; the most is 65536",
        ),
        ({"cpu_count": 0}, "cpuCount is 0 and memorySize 1 GiB: both have to be 1 at least"),
    ],
)
async def test_what_is_wrong_is_named(
    alone: Machines, options: dict[str, Any], expected: str
) -> None:
    done = await alone.run("create", NAME, error=REFUSED + expected, **options)
    assert (done.text, done.status) == ("", "")
    assert not (alone.store / "machines").exists()


def vgpu_texts() -> list[str]:
    entry = {"deviceName": RESOURCE}
    counted = [{**entry, "count": count} for count in (1, 2, 64, 0, -1, 2.0, 1e1, "2", True, None)]
    named = [{**entry, "name": name} for name in ("", "vgpu-0", None, [], {})]
    odd = [{"deviceName": one} for one in ("a.b/c", "A/b", "a/b/c", "/b", "a/", "a/b c", 1, None)]
    texts = [devices(one, entry) for one in (*counted, *named, *odd)]
    others = (
        "",
        "  ",
        "{}",
        "null",
        "[]",
        "1",
        '"x"',
        '{"vGPURequests":null}',
        '{"vGPURequests":[]}',
    )
    return [*texts, *others, '{"vGPURequests":[],"more":[1]}', devices(entry) + " ", "{} {}"]


@pytest.mark.parametrize("text", vgpu_texts())
async def test_laneway_and_the_driver_read_the_same(alone: Machines, text: str) -> None:
    """What `laneway pools` counts is what a machine gets."""
    try:
        expected = read(VGPUS, text).counts
    except DeviceInfoError:
        refused = await alone.run("configure", NAME, error=None, vgpu_info=text)
        assert refused.error.startswith(REFUSED + "vgpuInfo")
        return
    config = (await alone.run("configure", NAME, vgpu_info=text)).value
    found = (config["VGPUInfo"] or {}).get("vGPURequests") or []
    assert Counter(one["deviceName"] for one in found) == expected
    assert [one["name"] for one in found] == [f"vgpu-{place}" for place in range(len(found))]


@pytest.mark.parametrize("name", ["Guest", "a_b", "a" * 64])
async def test_a_name_that_no_vm_can_have(alone: Machines, name: str) -> None:
    done = await alone.run("create", name, error=None)
    assert "cannot be the name of a VM" in done.error


@pytest.mark.parametrize(
    ("kubeconfig", "expected"),
    [
        ("", EMPTY),
        ("geheim: [", "the kubeconfig cannot be used: it is not YAML of the right form"),
        ("{}", "the kubeconfig cannot be used: it has no current-context"),
        (
            "current-context: a",
            'the kubeconfig cannot be used: it has no context "a", which is its current-context',
        ),
    ],
)
async def test_a_kubeconfig_that_is_none(alone: Machines, kubeconfig: str, expected: str) -> None:
    await alone.run(
        "create",
        NAME,
        error=f"error with pre-create check: {expected}",
        kubeconfig_content=kubeconfig,
    )


def config(user: str, cluster: str = "server: 'https://127.0.0.1:9'") -> str:
    return (
        "current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
        f"clusters: [{{name: a, cluster: {{{cluster}}}}}]\nusers: [{{name: a, user: {{{user}}}}}]\n"
    )


@pytest.mark.parametrize(
    ("kubeconfig", "expected"),
    [
        (
            config("exec: {command: x}"),
            "its user logs in by another program (exec or auth-provider)",
        ),
        (config("", "server: 'ftp://x'"), 'its server "ftp://x" is not a URL with https'),
        (
            config("", "server: 'http://127.0.0.1:9'"),
            'its server "http://127.0.0.1:9" is not a URL with https',
        ),
        (config("client-certificate-data: '!'"), "its client-certificate-data is not base64"),
        (config("client-certificate-data: YQ=="), "do not belong together"),
        (
            config("", "server: 'https://x', certificate-authority-data: YQ=="),
            "its certificate-authority has no certificate",
        ),
    ],
)
async def test_a_kubeconfig_that_is_of_no_use(
    alone: Machines, kubeconfig: str, expected: str
) -> None:
    done = await alone.run("create", NAME, error=None, kubeconfig_content=kubeconfig)
    assert expected in done.error


@pytest.mark.parametrize(
    ("place", "field"),
    [
        ("cluster", "certificate-authority"),
        ("user", "client-certificate"),
        ("user", "client-key"),
        ("user", "tokenFile"),
    ],
)
async def test_a_pasted_kubeconfig_reads_no_file(
    alone: Machines, tmp_path: Path, place: str, field: str
) -> None:
    """Neither its content goes to the server nor does the answer say whether it exists."""
    path = tmp_path / "secret"
    answers = set()
    for exists in (False, True):
        if exists:
            path.write_text("geheim")
        line = f"{field}: {path}"
        text = (
            config("", f"server: 'https://127.0.0.1:9', {line}")
            if place == "cluster"
            else config(line)
        )
        done = await alone.run("create", NAME, error=None, kubeconfig_content=text)
        assert f"its {field} names a file" in done.error
        answers.add(done.error)
    assert len(answers) == 1


async def test_a_kubeconfig_file_may_name_others(alone: Machines, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("geheim")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(config("tokenFile: token"))
    alone.environment["KUBECONFIG"] = str(kubeconfig)
    done = await alone.run("create", NAME, error=None, kubeconfig_content="")
    assert "127.0.0.1:9 cannot be reached" in done.error


async def test_a_harvester_that_is_away(alone: Machines) -> None:
    text = base64.b64encode(config("token: geheim").encode()).decode()
    done = await alone.run("create", NAME, error=None, kubeconfig_content=text)
    assert done.error == (
        "error with pre-create check: the version of Harvester cannot be read: the API server at "
        "https://127.0.0.1:9 cannot be reached: dial tcp 127.0.0.1:9: connect: connection refused"
    )


async def test_removal_does_not_take_an_absent_harvester_for_an_absent_vm(alone: Machines) -> None:
    folder = alone.store / "machines" / NAME
    folder.mkdir(parents=True)
    stored = {
        "MachineName": NAME,
        "VMNamespace": "default",
        "KubeConfigContent": config("", "server: 'https://host-not-found.invalid'"),
    }
    (folder / "config.json").write_text(json.dumps(stored))
    done = await alone.run("rm", NAME, error=None)
    assert "whether VM default/guest-gpu-7xk2p-4fw9d exists cannot be read" in done.error
    assert "not found" not in done.error.lower()
    assert (folder / "config.json").exists()


async def test_what_was_stored_is_read_again_with_the_kubeconfig_of_today(alone: Machines) -> None:
    folder = alone.store / "machines" / NAME
    folder.mkdir(parents=True)
    stored = {
        "MachineName": NAME, "SSHUser": "ubuntu", "SSHPort": 22, "VMNamespace": "default",
        "CPU": 3, "MemorySize": "4Gi", "DiskSize": "0", "KeyPairName": "default/operator",
        "DiskInfo": {"disks": [{"imageName": "default/a", "storageClassName": "", "size": 3,
                                "bootOrder": 1, "bus": "virtio", "type": "disk",
                                "hotPlugAble": False}]},
        "VGPUInfo": json.loads(vgpus(RESOURCE)), "KubeConfigContent": "old",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(stored))
    found = (await alone.run("config", NAME)).value
    assert {key: found[key] for key in stored} == stored
    alone.environment["LANEWAY_KUBECONFIG_CONTENT"] = base64.b64encode(b"new").decode()
    assert (await alone.run("config", NAME)).value["KubeConfigContent"] == "new"
    argument = "--laneway-kubeconfig-content=" + base64.b64encode(b"newest").decode()
    found = (await alone.run("config", NAME, argument)).value
    assert found["KubeConfigContent"] == "newest"
