"""What is said of data that hold secrets, wherever they may be printed."""

from __future__ import annotations

from laneway.api import ObjectMeta
from laneway.vsphere.fleet.secrets import Secret
from laneway.vsphere.machines.bootstrap import BootstrapSecret
from laneway.vsphere.port import Clone, Credentials, Place

SECRET = "s3cr3t"


def test_no_secret_is_printed() -> None:
    clone = Clone(
        name="node-1",
        template="ubuntu",
        place=Place(),
        instance_uuid="u",
        cpus=2,
        cores_per_socket=1,
        memory_mib=2048,
        extra={"guestinfo.userdata": SECRET},
    )
    holders = (
        clone,
        Credentials("user", SECRET),
        Secret(metadata=ObjectMeta(name="main"), data={"password": SECRET}),
        BootstrapSecret(metadata=ObjectMeta(name="boot"), data={"value": SECRET}),
    )
    for one in holders:
        assert SECRET not in f"{one} {one!r}"
    assert "node-1" in repr(clone)
