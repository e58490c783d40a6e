"""The provider itself: its configuration, its functions, its data sources, and its mirror."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

from laneway.core.machine_pools import device_info
from laneway.core.machine_pools.device_info import VGPUS, DeviceInfo
from support.terraform import PYTHON, SOURCE, Terraform
from support.worlds import World

pytestmark = pytest.mark.timeout(240)
GPU, VGPU, RESOURCE = "node1-000008000", "node1-000008004", "nvidia.com/NVIDIA_A2-4Q"
READS = 'data "laneway_sriov_gpus" "all" {}\n'


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def elsewhere(kubeconfig: str) -> str:
    """The same, of a server that does not run."""
    return re.sub(r"http://[^']*", "http://127.0.0.1:9", Path(kubeconfig).read_text())


async def test_functions_give_what_laneway_itself_writes(terraform: Terraform) -> None:
    done = await terraform.apply(
        'output "name" {\n  value = provider::laneway::resource_name("NVIDIA A2-4Q")\n}\n'
        'output "info" {\n  value = provider::laneway::vgpu_info({ "nvidia.com/NVIDIA_A2-4Q" = 2 })'
        '\n}\noutput "none" {\n  value = provider::laneway::vgpu_info({})\n}\n'
    )
    assert done.status == 0
    expected = device_info.write(VGPUS, device_info.changed(DeviceInfo(), {RESOURCE: 2}))
    assert await terraform.outputs() == {"name": RESOURCE, "info": expected, "none": ""}
    terraform.env["HOME"] = "/proc/none"  # cannot be written
    odd = await terraform.plan(
        'output "info" {\n  value = provider::laneway::vgpu_info({ "A2-4Q" = 1 })\n}\n', status=1
    )
    assert "'A2-4Q' is not the name of a resource" in odd.words
    many = await terraform.plan(
        f'output "info" {{\n  value = provider::laneway::vgpu_info({{ "{RESOURCE}" = 65 }})\n}}\n',
        status=1,
    )
    assert "is not a number of 0 to 64" in many.words


async def test_data_sources_show_what_the_cluster_has(world: World, terraform: Terraform) -> None:
    await world.add("node1", "a2")
    await world.vgpu(VGPU, "NVIDIA A2-4Q")
    await world.claim("node1-000004001")
    await world.allocatable("node1", RESOURCE, 1)
    await world.make_vm("web", host_devices=[RESOURCE])
    await world.running("web")
    await terraform.apply(
        READS
        + 'data "laneway_vgpu_devices" "on" {\n  gpu     = "node1/08:00.0"\n  enabled = true\n}\n'
        'data "laneway_pci_devices" "claimed" {\n  node = "node1"\n  vendor_id = "8086"\n}\n'
        'data "laneway_capacity" "all" {}\n'
        f'data "laneway_capacity" "more" {{\n  request = {{ "{RESOURCE}" = 1 }}\n  vms = 2\n}}\n'
        'output "gpus" {\n  value = data.laneway_sriov_gpus.all.gpus\n}\n'
        'output "vgpus" {\n  value = data.laneway_vgpu_devices.on.devices\n}\n'
        'output "claimed" {\n  value = [for one in data.laneway_pci_devices.claimed.devices : '
        "one.name if one.claimed]\n}\n"
        'output "all" {\n  value = data.laneway_capacity.all\n}\n'
        'output "more" {\n  value = data.laneway_capacity.more\n}\n'
    )
    found = await terraform.outputs()
    [gpu] = found["gpus"]
    assert (gpu["name"], gpu["configured"]) == (GPU, {"NVIDIA A2-4Q": 1})
    assert gpu["room"]["NVIDIA A2-4Q"] == 3
    [vgpu] = found["vgpus"]
    assert (vgpu["name"], vgpu["holder"]) == (VGPU, "VM default/web")
    assert found["claimed"] == ["node1-000004001"]
    [mine] = [one for one in found["all"]["resources"] if one["resource"] == RESOURCE]
    assert (mine["total"], mine["held"], mine["free"]) == (1, 1, 0)
    assert (mine["creatable"], found["all"]["creatable"][RESOURCE]) == (3, 3)
    assert (found["all"]["fits"], found["more"]["fits"]) == (True, False)
    assert "VM default/web" in " ".join(found["more"]["refusals"])


async def test_a_plan_tells_steps_and_refusals_and_changes_nothing(
    world: World, terraform: Terraform
) -> None:
    await world.add("node1", "a2")
    text = (
        'data "laneway_plan" "a" {{\n  gpu   = "{gpu}"\n  vgpus = {{ "A2-4Q" = {count} }}\n}}\n'
        'output "plan" {{\n  value = data.laneway_plan.a\n}}\n'
    )
    await terraform.apply(text.format(gpu=GPU, count=2))
    plan = (await terraform.outputs())["plan"]
    assert (plan["possible"], plan["refusals"]) == (True, [])
    assert len(plan["steps"]) >= 2
    assert plan["room_afterwards"]["NVIDIA A2-4Q"] == 2
    await terraform.apply(text.format(gpu=GPU, count=5))
    plan = (await terraform.outputs())["plan"]
    assert (plan["possible"], plan["steps"]) == (False, [])
    assert "A2-4Q" in plan["refusals"][0]
    wrong = await terraform.plan(text.format(gpu="node1/09:00.0", count=1), status=1)
    assert 'gpu = "node1/09:00.0"' in wrong.words


async def test_a_cluster_that_cannot_be_reached_is_told_in_one_text(
    world: World, terraform: Terraform, tmp_path: Path
) -> None:
    await world.add("node1", "a2")
    vgpu = f'resource "laneway_vgpu" "a" {{\n  device  = "{VGPU}"\n  profile = "A2-4Q"\n}}\n'
    await terraform.apply(vgpu)
    good = terraform.kubeconfig
    away = tmp_path / "away"
    away.write_text(elsewhere(good))
    terraform.kubeconfig = str(away)
    failed = await terraform.plan(vgpu, status=1)
    assert "The cluster cannot be reached" in failed.words
    terraform.kubeconfig = str(tmp_path / "missing")
    failed = await terraform.plan(vgpu, status=1)
    assert "The cluster is not configured" in failed.words
    assert "missing: cannot be read: No such file or directory" in failed.words
    away.write_text("apiVersion: v1\nkind: Config\nusers: [{name: u, user: {token: s3cr3t-token}}]")
    terraform.kubeconfig = str(away)
    failed = await terraform.plan(vgpu, status=1)
    assert "no current context is set" in failed.words

    terraform.kubeconfig = good
    terraform.write(vgpu)
    await terraform.settled()
    assert not [path for path in files(terraform.folder) if b"s3cr3t" in path.read_bytes()]


async def test_terraform_installs_the_provider_from_a_mirror(
    world: World, terraform: Terraform, tmp_path: Path
) -> None:
    await world.add("node1", "a2")
    mirror = tmp_path / "a mirror"
    process = await asyncio.create_subprocess_exec(
        str(PYTHON.parent / "laneway-terraform-provider"),
        "mirror",
        str(mirror),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    [path] = files(mirror)
    assert path.relative_to(mirror).parts[:3] == tuple(SOURCE.split("/"))
    assert path.name.startswith("terraform-provider-laneway_v")
    assert os.access(path, os.X_OK)
    said = out.decode().partition("provider_installation {\n")[2].rpartition("}")[0]
    terraform.installation(said.partition("  direct")[0])
    terraform.write(READS + 'output "gpus" {\n  value = data.laneway_sriov_gpus.all.gpus\n}\n')
    await terraform.run("init", "-no-color")
    assert SOURCE in (terraform.folder / ".terraform.lock.hcl").read_text()
    await terraform.apply()
    assert [one["name"] for one in (await terraform.outputs())["gpus"]] == [GPU]
