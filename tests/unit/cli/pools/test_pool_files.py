"""Pools in YAML files: what is changed, and that nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubebasics.yaml_text import read_all
from laneway.changes.errors import ChangeError, RefusedError
from laneway.changes.machine_pools import Edit, Wanted, no_pool, planned
from laneway.cli.errors import Failure
from laneway.cli.pools.files import edited, write
from laneway.controllers.machine_pools.look import Supply, of_documents
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import DeviceFact, Facts, NodeFact

A2, L4 = "nvidia.com/NVIDIA_A2-4Q", "nvidia.com/AD104GL_L4"
BLOCK = """\
# of the platform team
apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata: {name: guest, namespace: fleet-default}
spec:
  rkeConfig:
    machinePools:
    - name: cp
      machineConfigRef: {kind: HarvesterConfig, name: nc-cp}
    - name: gpu  # workers
      machineConfigRef: {kind: LanewayConfig, name: nc-gpu}
---
apiVersion: rke-machine-config.cattle.io/v1
kind: HarvesterConfig
metadata: {name: nc-cp, namespace: fleet-default}
---
apiVersion: rke-machine-config.cattle.io/v1
kind: LanewayConfig
metadata:
  name: nc-gpu
  namespace: fleet-default
vgpuInfo: ""   # none yet
cpuCount: "4"
"""
FLOW = """\
{apiVersion: v1, kind: List, items: [
  {apiVersion: provisioning.cattle.io/v1, kind: Cluster,
   metadata: {name: guest, namespace: fleet-default},
   spec: {rkeConfig: {machinePools: [
     {name: gpu, machineConfigRef: {kind: LanewayConfig, name: nc-gpu}}]}}},
  {apiVersion: rke-machine-config.cattle.io/v1, kind: LanewayConfig,
   metadata: {name: nc-gpu, namespace: fleet-default}}]}
"""


def device(name: str, resource: str) -> str:
    return f'{{"name":"{name}","deviceName":"{resource}"}}'


def objects(text: str) -> list[Any]:
    found = []
    for one in read_all(text):
        found += one["items"] if one["kind"] == "List" else [one]
    return found


def edit(text: str, **wanted: Any) -> Edit:
    devices = tuple(DeviceFact("n1", name, f"{name}-{n}") for name in (A2, L4) for n in range(9))
    ledger = build(Facts(devices, (), (NodeFact("n1"),)))
    asked = Wanted("guest", "gpu", **wanted)
    return planned(of_documents(objects(text)), Supply(ledger=ledger), asked)


def test_comments_and_everything_else_stay(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(BLOCK)
    [after] = edited((str(file),), edit(BLOCK, devices={A2: 1, L4: 1}, quantity=3)).values()
    assert set(after.splitlines()) - set(BLOCK.splitlines()) == {
        "      quantity: 3",
        f"""vgpuInfo: '{{"vGPURequests":[{device("vgpu-0", A2)}]}}'   # none yet""",
        f"""hostDeviceInfo: '{{"hostDevices":[{device("device-0", L4)}]}}""" + "'",
    }
    assert set(BLOCK.splitlines()) - set(after.splitlines()) == {'vgpuInfo: ""   # none yet'}


def test_a_new_key_tears_no_comment_from_its_key(tmp_path: Path) -> None:
    config = """\
# what each worker has
kind: LanewayConfig  # of Laneway
# 4 are enough
cpuCount: "4"  # for now
# what runs at boot
userData: |
  #cloud-config
apiVersion: rke-machine-config.cattle.io/v1
metadata:
  name: nc-gpu
  namespace: fleet-default"""
    text = BLOCK.rpartition("---\n")[0] + "---\n" + config
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    [after] = edited((str(file),), edit(text, devices={A2: 1})).values()
    new = f"""vgpuInfo: '{{"vGPURequests":[{device("vgpu-0", A2)}]}}'"""
    version = "apiVersion: rke-machine-config.cattle.io/v1\n"
    head, _, tail = config.partition(version)
    assert after == BLOCK.rpartition("---\n")[0] + f"---\n{head}{version}{new}\n{tail}"


def test_harvesters_driver_would_lose_pci_devices(tmp_path: Path) -> None:
    """No file can say what the machine driver knows; a HarvesterConfig is always Harvester's."""
    text = BLOCK.replace("LanewayConfig", "HarvesterConfig")
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    with pytest.raises(ChangeError, match="HarvesterConfig does not keep the field hostDeviceInfo"):
        edited((str(file),), edit(text, devices={A2: 1, L4: 1}))
    assert edited((str(file),), edit(text, devices={A2: 1}))


def test_of_several_files_all_are_written_or_none(tmp_path: Path) -> None:
    cluster, _, configs = BLOCK.partition("---\n")
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(cluster)
    second.write_text(configs)
    texts = edited((str(first), str(second)), edit(BLOCK, devices={A2: 1}, quantity=3))
    second.chmod(0o440)
    with pytest.raises(Failure, match=r"b\.yaml is read-only; nothing was changed"):
        write(texts)
    assert (first.read_text(), second.read_text()) == (cluster, configs)
    assert sorted(tmp_path.iterdir()) == [first, second]
    second.chmod(0o640)
    write(texts)
    assert "quantity: 3" in first.read_text()
    assert A2 in second.read_text()
    assert sorted(tmp_path.iterdir()) == [first, second]


def test_a_link_stays_one(tmp_path: Path) -> None:
    real, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    real.write_text(BLOCK)
    link.symlink_to(real)
    write(edited((str(link),), edit(BLOCK, quantity=3)))
    assert link.is_symlink()
    assert "quantity: 3" in real.read_text()


@pytest.mark.parametrize("text", [BLOCK, BLOCK.replace("\n", "\r\n"), FLOW])
def test_the_file_says_what_is_wanted(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_bytes(text.encode())
    file.chmod(0o640)
    write(edited((str(file),), edit(text, devices={A2: 2}, quantity=0)))
    after = file.read_bytes().decode()
    assert file.stat().st_mode & 0o777 == 0o640
    again = edit(after, devices={A2: 2}, quantity=0)
    assert not again.changes
    # all else is as it was
    want, have = objects(text), objects(after)
    for one in have:
        one.pop("vgpuInfo", None)
        for pool in one.get("spec", {}).get("rkeConfig", {}).get("machinePools", ()):
            pool.pop("quantity", None)
    for one in want:
        one.pop("vgpuInfo", None)
    assert msgspec.json.encode(have, order="sorted") == msgspec.json.encode(want, order="sorted")


def test_removing_the_devices_mends_a_text_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(broken := BLOCK.replace('vgpuInfo: ""', "vgpuInfo: '{'"))
    with pytest.raises(RefusedError, match="vgpuInfo is not JSON"):
        edit(broken, devices={A2: 1})
    mended = edit(broken, devices={})
    assert mended.mended == ("vgpuInfo",)
    [after] = edited((str(file),), mended).values()
    assert after == BLOCK.replace('vgpuInfo: ""', "vgpuInfo: ''")


def test_mistakes_that_refuse_a_change_stand_apart() -> None:
    wrong = BLOCK.replace('vgpuInfo: ""', "vgpuInfo: '{'").replace('"4"', '"abc"')
    with pytest.raises(RefusedError, match=r"; cpuCount: 'abc' is not a number$"):
        edit(wrong, devices={A2: 1})


def test_a_pool_of_another_driver_is_not_on_harvester() -> None:
    amazon = BLOCK.replace("kind: LanewayConfig, name: nc-gpu", "kind: AmazonConfig, name: other")
    with pytest.raises(ChangeError, match=r"pool gpu are not on Harvester: .* is AmazonConfig"):
        edit(amazon, devices={})
    [cluster] = of_documents(objects(amazon)).clusters
    shown = no_pool("guest", "gpu", cluster.pools)
    assert "not on Harvester: the kind of its machine configuration is AmazonConfig" in shown
