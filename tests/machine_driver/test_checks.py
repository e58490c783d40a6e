"""What the check before a creation finds on Harvester, and what a machine's guest is told."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kapilite.credentials.pki import ensure
from kubebasics import yaml_text
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import NotFoundError
from laneway.kube.kubevirt import VIRTUAL_MACHINES
from laneway.kube.resource import Resource
from laneway.simcluster.harvester.install import IMAGE, IMAGES, KEY_PAIRS, SETTINGS
from support.harvester import KEY_PAIR, PUBLIC_KEY
from support.machine_driver import Machines, vgpus
from support.reviewed import Served
from support.worlds import World

NAME = "guest-gpu-7xk2p-4fw9d"
NAMESPACE = "default"
CHECK = "error with pre-create check: "
UNVALIDATED = (
    f"key pair default/{KEY_PAIR} is not validated by Harvester: it has not been looked at yet"
)
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", False, dict)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"image_name": "images/none"}, "imageName: Harvester has no image images/none"),
        ({"network_name": "none"}, "networkName: Harvester has no VM network default/none"),
        (
            {"disk_info": '{"disks":[{"storageClassName":"none","size":1}]}'},
            "storageClassName: Harvester has no storage class none",
        ),
        (
            {"key_pair_name": "none", "ssh_private_key_path": "id"},
            "keyPairName: Harvester has no key pair default/none",
        ),
        (
            {"key_pair_name": KEY_PAIR, "ssh_private_key_path": "id"},
            UNVALIDATED,
        ),
    ],
)
async def test_what_harvester_lacks_is_named(
    checked: Machines, options: dict[str, Any], expected: str
) -> None:
    await checked.run("create", NAME, error=CHECK + expected, **options)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("geheim\n", "has no private SSH key as PEM"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "has no private SSH key",
        ),
        ("a" * 65537, "is longer than 65536 bytes, so it is not an SSH key"),
        (None, "is not a regular file"),
    ],
)
async def test_a_file_that_is_no_private_key_is_not_copied(
    checked: Machines, serving: Served, tmp_path: Path, content: str | None, expected: str
) -> None:
    """Users of Rancher may read the machine's key, and any file could be named for it."""
    path = tmp_path / "other"
    if content is None:
        path.mkdir()
    else:
        path.write_text(content)
    async with Client(load(serving.kubeconfig)) as client:
        await validate(client)
    done = await checked.run(
        "create", NAME, error=None, key_pair_name=KEY_PAIR, ssh_private_key_path=str(path)
    )
    assert done.error.startswith(f"{CHECK}sshPrivateKeyPath: {path} ")
    assert expected in done.error
    assert "geheim" not in done.error
    assert not (checked.store / "machines").exists()


async def test_a_file_that_is_no_public_key_is_not_copied(
    checked: Machines, tmp_path: Path
) -> None:
    path = tmp_path / "id"
    path.write_text(private_key())
    (tmp_path / "id.pub").write_text("ssh-ed25519 AAAA me\ngeheim: yes\n")
    done = await checked.run("create", NAME, error=None, ssh_private_key_path=str(path))
    assert done.error == (
        f"{CHECK}sshPrivateKeyPath: {path}.pub is not one public SSH key. Write it again: "
        f"ssh-keygen -y -f {path} > {path}.pub"
    )


async def test_credentials_that_are_not_accepted(checked: Machines) -> None:
    kubeconfig = str(checked.options["laneway-kubeconfig-content"])
    other = re.sub(r"token: .*", "token: invalid-token", kubeconfig)
    done = await checked.run("create", NAME, error=None, kubeconfig_content=other)
    assert "does not accept the credentials of the kubeconfig" in done.error
    assert "invalid-token" not in done.error


async def test_no_redirect_leads_to_another_server(alone: Machines, tmp_path: Path) -> None:
    """Only the kubeconfig says which server the driver speaks to, and that by https."""
    asked = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        raise web.HTTPFound("/elsewhere")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    server = TestServer(app, host="127.0.0.1", scheme="https")
    await server.start_server(ssl=ensure(str(tmp_path / "pki")).ssl_context())
    async with server:
        cluster = {"server": str(server.make_url("")), "insecure-skip-tls-verify": True}
        kubeconfig = {
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "clusters": [{"name": "a", "cluster": cluster}],
            "users": [{"name": "a", "user": {"token": "geheim"}}],
        }
        text = json.dumps(kubeconfig)
        done = await alone.run("create", NAME, error=None, kubeconfig_content=text)
    assert done.error == f"{CHECK}the version of Harvester cannot be read: HTTP status 302"
    assert "/elsewhere" not in asked


async def test_a_cluster_that_is_no_harvester(checked: Machines, serving: Served) -> None:
    """That a kind is unknown says nothing of a VM, so nothing is forgotten."""
    folder = checked.store / "machines" / NAME
    folder.mkdir(parents=True)
    kubeconfig = checked.options["laneway-kubeconfig-content"]
    stored = {"MachineName": NAME, "VMNamespace": NAMESPACE, "KubeConfigContent": kubeconfig}
    (folder / "config.json").write_text(json.dumps(stored))
    async with Client(load(serving.kubeconfig)) as client:
        for kind in (SETTINGS, VIRTUAL_MACHINES):
            await client.call("DELETE", f"{CRDS.path()}/{kind}")
            await until_unknown(client, kind)
    done = await checked.run("create", NAME, error=None)
    assert "has no such resource" in done.error
    removed = await checked.run("rm", NAME, error=None)
    assert "Is it Harvester's?" in removed.error
    assert (folder / "config.json").exists()


async def test_an_image_that_is_not_ready(checked: Machines, serving: Served) -> None:
    async with Client(load(serving.kubeconfig)) as client:
        said = {"type": "Imported", "status": "False", "message": "checksum mismatch"}
        body: dict[str, Any] = {"status": {"conditions": [said]}}
        await client.patch(IMAGES, IMAGE, body, NAMESPACE, subresource="status")
        text = f"{CHECK}image default/{IMAGE} is not imported: checksum mismatch"
        await checked.run("create", NAME, error=text)
        body = {"status": {"conditions": None, "storageClassName": None}}
        await client.patch(IMAGES, IMAGE, body, NAMESPACE, subresource="status")
    text = f"{CHECK}image default/{IMAGE} is not ready: it has no storage class yet"
    await checked.run("create", NAME, error=text)


async def test_a_resource_that_no_device_has(world: World, machines: Machines) -> None:
    done = await machines.run(
        "create", NAME, error=None, vgpu_info=vgpus("nvidia.com/NVIDIA_A2-9Q")
    )
    assert done.error.startswith(f"{CHECK}Harvester would refuse VM default/{NAME}: ")
    assert "No device has the resource 'nvidia.com/NVIDIA_A2-9Q'" in done.error


async def test_the_guest_is_told_all_and_no_one_else(
    world: World, machines: Machines, tmp_path: Path
) -> None:
    """User data has passwords and tokens, so it stands in a secret, and in no output."""
    await world.add("node1", "a2")
    private = tmp_path / "operator"
    key = private_key()
    private.write_text(f"# of the operator\n{key}")
    await validate(world.client)
    user_data = "## template: jinja\n#cloud-config\nruncmd:\n- echo geheim\nhostname: mine\n"
    affinity = {"nodeAffinity": {}, "unheardOf": True}
    done = await machines.run(
        "create",
        NAME,
        key_pair_name=KEY_PAIR,
        ssh_private_key_path=str(private),
        ssh_user="ubuntu",
        ssh_password="geheim",
        user_data=base64.b64encode(user_data.encode()).decode(),
        network_data="version: 2",
        vm_affinity=json.dumps(affinity),
        enable_efi=True,
        enable_tpm=True,
        reserved_memory_size=256,
        cluster_name="guest-gpu",
    )
    assert 'Warning: unknown field "spec.template.spec.affinity.unheardOf"' in done.text
    assert "geheim" not in done.text
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{NAME}-cloudinit"
    data = msgspec.json.decode(await world.client.raw(path))["data"]
    text = base64.b64decode(data["userdata"]).decode()
    assert text.startswith("## template: jinja\n#cloud-config\n")
    [found] = yaml_text.read_all(text)
    assert found == {
        "user": "ubuntu",
        "password": "geheim",
        "chpasswd": {"expire": False},
        "ssh_pwauth": True,
        "ssh_authorized_keys": [PUBLIC_KEY],
        "hostname": "mine",
        "runcmd": ["echo geheim", "sh /usr/local/custom_script/install.sh"],
    }
    assert base64.b64decode(data["networkdata"]) == b"version: 2"
    raw = await world.client.raw(f"{VIRTUAL_MACHINES.path(NAMESPACE)}/{NAME}")
    assert b"geheim" not in raw
    vm = msgspec.json.decode(raw)
    assert vm["metadata"]["annotations"]["harvesterhci.io/reservedMemory"] == "256Mi"
    assert vm["metadata"]["labels"]["nodepool.harvesterhci.io/name"] == "7xk2p"
    spec = vm["spec"]["template"]["spec"]
    assert spec["domain"]["firmware"] == {"bootloader": {"efi": {"secureBoot": False}}}
    assert spec["domain"]["devices"]["tpm"] == {}
    assert (await machines.run("ssh", NAME)).value["user"] == "ubuntu"
    assert (machines.store / "machines" / NAME / "id_rsa").read_text() == key
    await machines.run("rm", NAME)
    with pytest.raises(NotFoundError):
        await world.client.raw(path)


async def test_a_driver_whose_client_is_gone_removes_what_it_was_making(
    world: World, machines: Machines
) -> None:
    await world.kill_kubevirt()  # so that the VM neither starts nor says why
    process = await machines.start("create", NAME)
    assert process.stdin is not None
    process.stdin.write(json.dumps(machines.options).encode())
    process.stdin.close()
    await world.until(VIRTUAL_MACHINES, NAME, lambda vm: vm is not None)
    process.kill()
    await process.wait()
    await world.until(VIRTUAL_MACHINES, NAME, lambda vm: vm is None)


def private_key() -> str:
    made = ed25519.Ed25519PrivateKey.generate()
    return made.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


async def validate(client: Client) -> None:
    """Have Harvester say that it has looked at the key pair."""
    said = {"status": {"conditions": [{"type": "validated", "status": "True"}]}}
    await client.patch(KEY_PAIRS, KEY_PAIR, said, NAMESPACE, subresource="status")


async def until_unknown(client: Client, kind: Resource[Any]) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                await client.raw(kind.path())
            except NotFoundError:
                return
            await asyncio.sleep(0.02)
