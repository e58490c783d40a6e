"""The container of a process, read from `/proc/PID/cgroup`.

The kubelet makes a cgroup per pod, named by the pod's uid, and the container runtime one in it per
container, named by the container's ID. How both are spelled depends on the cgroup driver:

    cgroupfs  /kubepods/besteffort/pod<uid>/<id>
    systemd   /kubepods.slice/kubepods-pod<uid>.slice/cri-containerd-<id>.scope
    both      /system.slice/containerd.service/kubepods-pod<uid>.slice:cri-containerd:<id>

where systemd's spelling has `_` in place of the uid's `-`, and CRI-O and Docker have their own
prefixes. With cgroup v1 there is a line per controller. A reader that is in a cgroup namespace of
its own sees a path that begins with `..`.

A container may be able to make cgroups below its own, and name them as it likes. So the outermost
pod counts, and the container is what comes right below it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_POD = re.compile(
    r"(?:^|[/-])pod([0-9a-f]{8}([-_])[0-9a-f]{4}\2[0-9a-f]{4}\2[0-9a-f]{4}\2[0-9a-f]{12})"
    r"(?:\.slice)?(?=[/:]|$)"
)
_CONTAINER = re.compile(
    r"[/:](?:(?:cri-containerd|crio|docker)[-:])?([0-9a-f]{64})(?:\.scope)?(?:/|$)"
)
_ID = re.compile(r"[a-z0-9-]+://([0-9a-f]{64})")


class Container(NamedTuple):
    """A container of a pod."""

    pod: str
    """The pod's uid."""
    id: str
    """64 hexadecimal digits."""


def container_of(cgroup: str) -> Container | None:
    """The container of a process; None where there is none, or its controllers disagree."""
    found = set()
    for line in cgroup.splitlines():
        _, _, path = line.partition(":")[2].partition(":")
        if pod := _POD.search(path):
            inside = _CONTAINER.match(path, pod.end())
            uid = pod[1].replace("_", "-")
            found.add(Container(uid, inside[1]) if inside else None)
    return found.pop() if len(found) == 1 else None


def container_id(status: str) -> str:
    """The ID in `containerID` of a pod's status, such as `containerd://<id>`; empty if none."""
    match = _ID.fullmatch(status)
    return match[1] if match else ""
