"""Whose container a process is in, in every spelling that runtimes have."""

from __future__ import annotations

import pytest

from laneway.core.kernel.cgroup import Container, container_id, container_of

UID = "0a1b2c3d-1111-4222-8333-444455556666"
SYSTEMD = UID.replace("-", "_")
ID, OTHER = "ab" * 32, "cd" * 32
OURS = Container(UID, ID)


@pytest.mark.parametrize(
    "path",
    [
        f"/kubepods/besteffort/pod{UID}/{ID}",
        f"/kubepods/pod{UID}/{ID}",
        f"/kubepods/burstable/pod{UID}/crio-{ID}",
        (
            f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SYSTEMD}.slice"
            f"/cri-containerd-{ID}.scope"
        ),
        f"/kubepods.slice/kubepods-pod{SYSTEMD}.slice/crio-{ID}.scope",
        f"/kubepods.slice/kubepods-pod{SYSTEMD}.slice/crio-{ID}.scope/container",
        f"/kubepods.slice/kubepods-pod{SYSTEMD}.slice/docker-{ID}.scope/init.scope",
        (
            f"/system.slice/containerd.service/kubepods-besteffort-pod{SYSTEMD}.slice"
            f":cri-containerd:{ID}"
        ),
        f"/docker/{OTHER}/kubelet/kubepods/besteffort/pod{UID}/{ID}",
        f"/../../kubepods-burstable-pod{SYSTEMD}.slice/cri-containerd-{ID}.scope",
        # What a container makes below its own cgroup is still the container.
        f"/kubepods/pod{UID}/{ID}/kubepods/pod{UID[::-1]}/{OTHER}",
    ],
)
def test_the_container_is_found(path: str) -> None:
    assert container_of(f"0::{path}\n") == OURS
    assert container_of(f"12:pids:{path}\n11:cpu,cpuacct:{path}\n1:name=systemd:{path}\n") == OURS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0::/\n",
        "0::/init.scope\n",
        f"0::/kubepods/pod{UID}\n",
        f"0::/kubepods/pod{UID}/{ID[:-1]}\n",
        f"0::/kubepods/pod{UID}/{ID}0\n",
        # CRI-O's own helper is next to its container.
        f"0::/kubepods.slice/kubepods-pod{SYSTEMD}.slice/crio-conmon-{ID}.scope\n",
        f"0::/kubepods/pod{UID}/inner/{ID}\n",
        f"0::/user.slice/notpod{UID}/{ID}\n",
        # One process, two answers: it was moved.
        f"2:pids:/kubepods/pod{UID}/{ID}\n1:cpu:/kubepods/pod{UID}/{OTHER}\n",
        f"2:pids:/kubepods/pod{UID}/{ID}\n1:cpu:/kubepods/pod{UID}\n",
    ],
)
def test_what_is_in_no_container(text: str) -> None:
    assert container_of(text) is None


def test_a_cgroup_that_a_container_names_as_another_is_its_own() -> None:
    attacker = UID.replace("0a1b2c3d", "ffffffff")
    text = f"0::/kubepods/pod{attacker}/{OTHER}/kubepods/pod{UID}/{ID}\n"

    assert container_of(text) == Container(attacker, OTHER)


def test_the_id_of_a_status() -> None:
    for runtime in ("containerd", "cri-o", "docker"):
        assert container_id(f"{runtime}://{ID}") == ID
    for wrong in ("", "containerd://", f"containerd://{ID}0", ID, f"containerd://../{ID}"):
        assert not container_id(wrong)
