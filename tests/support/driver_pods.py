"""Driver pods, as an API server tells of them, and their containers as far as a node shows them.

A container here is a folder with a `bin` of its own, and an entry in a folder that stands for
/proc. What stands for `nsenter` runs a program in the container whose root it is given, and fails
in the words of the real one. The kernel rig has real ones.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig

NAMESPACE = "harvester-system"
OWNER = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "driver", "uid": "uid of driver"}
_NSENTER = """#!/bin/sh
while [ "$1" != -- ]; do
    case $1 in --root=*) root=$(readlink "${1#--root=}") ;; esac
    shift
done
shift
echo "$*" >> "$root/ran"
program="$root/bin/${1##*/}"
if [ ! -x "$program" ]; then
    echo "nsenter: failed to execute $1: No such file or directory" >&2
    exit 127
fi
shift
exec "$program" "$@"
"""


def uid(number: int) -> str:
    """The uid of a pod."""
    return f"{number:08x}-0000-4000-8000-000000000000"


def container_id(number: int) -> str:
    return f"{number:064x}"


def pod(name: str = "driver-1", *, number: int = 1, ready: bool = True, **more: Any) -> dict:
    """A driver pod as the toolkit's DaemonSet makes it; `number` for its uid and container."""
    meta = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": uid(number),
        "labels": {"app": "nvidia-driver-daemonset"},
        "creationTimestamp": more.get("created", "2026-01-01T00:00:00Z"),
    }
    if owner := more.get("owner", OWNER):
        meta["ownerReferences"] = [{**owner, "controller": True}]
    if more.get("deleted"):
        meta["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    driver: dict[str, Any] = {"name": "driver", "image": "x"}
    if more.get("privileged", True):
        driver["securityContext"] = {"privileged": True}
    if more.get("probe"):
        driver["readinessProbe"] = {"exec": {"command": ["true"]}}
    start = container_id(more.get("start", number))
    return {
        "metadata": meta,
        "spec": {"nodeName": more.get("node", "one"), "containers": [driver, {"name": "sidecar"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [
                {"name": "sidecar", "containerID": f"containerd://{container_id(99)}"},
                {"name": "driver", "containerID": f"containerd://{start}"},
            ],
        },
    }


@dataclass
class DriverPods:
    """What an API server tells of pods and of the DaemonSet that makes them."""

    client: Client = field(init=False)
    pods: list[dict] = field(default_factory=list)
    refusal: web.Response | None = None
    namespace: str = NAMESPACE
    asked: list[str] = field(default_factory=list)
    """Every request but lists of pods."""

    async def list_pods(self, request: web.Request) -> web.Response:
        if self.refusal is not None:
            return self.refusal
        assert request.match_info["namespace"] == self.namespace
        assert request.query["labelSelector"] == "app=nvidia-driver-daemonset"
        selector, _, node = request.query["fieldSelector"].partition("=")
        assert selector == "spec.nodeName"
        items = [one for one in self.pods if one["spec"]["nodeName"] == node]
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})

    async def other(self, request: web.Request) -> web.Response:
        self.asked.append(f"{request.method} {request.path}")
        labels = {"driver": {"app": "nvidia-driver-daemonset"}, "other": {"app": "other"}}
        name = request.path.rpartition("/")[2]
        if "/daemonsets/" not in request.path or name not in labels:
            return web.json_response({"kind": "Status", "code": 404, "message": "no"}, status=404)
        template = {"metadata": {"labels": labels[name]}}
        meta = {"name": name, "uid": f"uid of {name}"}
        return web.json_response({"metadata": meta, "spec": {"template": template}})


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[DriverPods]:
    """An API server that knows of nothing but driver pods."""
    api = DriverPods()
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/{namespace}/pods", api.list_pods)
    app.router.add_route("*", "/{path:.*}", api.other)
    server = TestServer(app, host="127.0.0.1")
    await server.start_server()
    async with Client(ClusterConfig(Cluster(str(server.make_url(""))))) as api.client:
        yield api
    await server.close()


class Containers:
    """The processes of a node, and what is in their containers."""

    def __init__(self, folder: Path) -> None:
        self.proc = folder / "proc"
        self.folder = folder / "node-bin"
        """Where this node's own programs are; `nsenter` alone."""
        self._roots = folder / "roots"
        self._namespaces("self", "node")
        self.folder.mkdir()
        _script(self.folder / "nsenter", _NSENTER)

    def add(self, number: int, *, ready: bool = True, **programs: str) -> Path:
        """The container of a driver pod, with the toolkit's marker; its root."""
        root = self._roots / str(number)
        (root / "bin").mkdir(parents=True)
        _script(root / "bin" / "test", f"#!/bin/sh\nexit {0 if ready else 1}\n")
        for name, script in programs.items():
            _script(root / "bin" / name.replace("_", "-"), f"#!/bin/sh\n{script}\n")
        self.process(1000 + number, root, uid(number), container_id(number), started=50)
        return root

    def process(self, pid: int, root: Path, pod: str, container: str, *, started: int) -> None:
        """A process in a container of a pod."""
        self._namespaces(str(pid), f"{pod}-{container}")
        home = self.proc / str(pid)
        (home / "cgroup").write_text(f"0::/kubepods/pod{pod}/{container}\n")
        (home / "stat").write_text(f"{pid} (a) b) S {'0 ' * 18}{started} 0\n")
        (home / "root").symlink_to(root)

    def _namespaces(self, process: str, place: str) -> None:
        home = self.proc / process / "ns"
        home.mkdir(parents=True)
        for name in ("mnt", "pid", "net", "ipc", "uts", "cgroup"):
            source = self.proc.parent / "namespaces" / f"{place}-{name}"
            source.parent.mkdir(exist_ok=True)
            source.touch()
            os.link(source, home / name)
        users = self.proc.parent / "users"
        users.touch()
        os.link(users, home / "user")


def ran(root: Path) -> Sequence[str]:
    """The commands that have been run in a container."""
    with contextlib.suppress(FileNotFoundError):
        return (root / "ran").read_text().splitlines()
    return ()


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
