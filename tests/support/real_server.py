"""A real API server of the test's own, with its etcd, which it may kill and whose files it owns."""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp

from kapilite.credentials.pki import Pki, ensure
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig, Pem, User
from laneway.kube.config import load
from laneway.kube.errors import KubeError

SCRIPTS = Path(__file__).parents[2] / "tools" / "real-apiserver"
SECONDS = 60.0


def programs() -> Path | None:
    """The folder with the programs of the server under test; None if that is not ours."""
    pid = Path(os.environ.get("KUBECONFIG", "none")).with_name("kube-apiserver.pid")
    return Path(f"/proc/{pid.read_text().strip()}/exe").readlink().parent if pid.exists() else None


def release(folder: Path) -> tuple[int, ...]:
    """Which Kubernetes these programs are."""
    command = [str(folder / "kube-apiserver"), "--version"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return tuple(map(int, re.findall(r"\d+", said)[:2]))


class RealServer:
    """The server. `start` and `stop` take seconds."""

    def __init__(self, folder: Path, state: Path) -> None:
        self._folder = folder
        self._state = state
        self._again: subprocess.Popen[bytes] | None = None
        self.clients: Pki = ensure(str(state / "clients"))
        """The authority of client certificates."""
        self.trusted = state / "trusted.crt"
        """A file with the authority of the serving certificate, as pods have it."""
        self._client_ca = state / "client-ca.crt"
        self._client_ca.write_bytes(self.clients.ca_pem)

    @property
    def admin(self) -> ClusterConfig:
        """How an administrator reaches it, whom no limits concern."""
        return self._as(load(str(self._state / "kubeconfig")).user)

    @property
    def user(self) -> ClusterConfig:
        """How a user reaches it, who has the rights that a test binds."""
        return self._as(load(str(self._state / "kubeconfig.user")).user)

    def with_certificate(self, certificate: Path, key: Path) -> ClusterConfig:
        """How a user with a certificate reaches it."""
        return self._as(User(certificate=Pem(path=str(certificate)), key=Pem(path=str(key))))

    def _as(self, user: User) -> ClusterConfig:
        url = load(str(self._state / "kubeconfig")).cluster.server
        return ClusterConfig(Cluster(url, Pem(path=str(self.trusted))), user)

    def start(self) -> None:
        flags = {"APISERVER_FLAGS": f"--client-ca-file={self._client_ca}"}
        command = [str(SCRIPTS / "start.sh"), str(self._folder), str(self._state)]
        subprocess.run(command, check=True, capture_output=True, env=os.environ | flags)
        self.trusted.write_bytes((self._state / "certs" / "apiserver.crt").read_bytes())

    def stop(self) -> None:
        subprocess.run([str(SCRIPTS / "stop.sh"), str(self._state)], check=True)
        if self._again is not None:
            self._again.wait(SECONDS)

    # ---- what happens to it ----

    async def killed(self) -> None:
        """Kill it, and start it again; it answers then."""
        await asyncio.to_thread(self._kill)
        await self._until_ready(self.admin)

    async def _until_ready(self, config: ClusterConfig) -> None:
        async with asyncio.timeout(2 * SECONDS), Client(config) as client:
            while not await _ready(client):  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.1)

    def _kill(self) -> None:
        pid_file = self._state / "kube-apiserver.pid"
        pid = int(pid_file.read_text())
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        gone = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        select.select([gone], [], [], SECONDS)
        os.close(gone)
        if self._again is not None:
            self._again.wait()
        with (self._state / "kube-apiserver.log").open("ab") as log:
            self._again = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
        pid_file.write_text(f"{self._again.pid}\n")

    async def compact(self) -> None:
        """Have etcd forget everything but what there is now, as API servers have it do."""
        port = (self._state / "ports").read_text().split()[2]
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            every = {"key": "AA==", "range_end": "AA==", "count_only": True}
            async with session.post("/v3/kv/range", json=every) as answer:
                revision = (await answer.json())["header"]["revision"]
            past = {"revision": revision, "physical": True}
            async with session.post("/v3/kv/compaction", json=past) as answer:
                assert answer.status == 200, await answer.text()

    async def renew_certificate(self, name: str) -> Pki:
        """Have another serving certificate, of another authority, while it runs."""
        pki = ensure(str(self._state / name))
        await asyncio.to_thread(self._serve_as, pki)
        seen = replace(self.admin, cluster=replace(self.admin.cluster, ca=Pem(data=pki.ca_pem)))
        await self._until_ready(seen)
        return pki

    def renew_client_authority(self, name: str) -> Pki:
        """Have it trust client certificates of another authority only; it notices soon."""
        self.clients = ensure(str(self._state / name))
        self._replace(self._client_ca, self.clients.ca_pem)
        return self.clients

    def _serve_as(self, pki: Pki) -> None:
        for source, target in ((pki.server_key, "key"), (pki.server_cert, "crt")):
            target_file = self._state / "certs" / f"apiserver.{target}"
            self._replace(target_file, Path(source).read_bytes())

    @staticmethod
    def _replace(path: Path, content: bytes) -> None:
        new = path.with_name(f"{path.name}.new")
        new.write_bytes(content)
        new.replace(path)


async def _ready(client: Client) -> bool:
    try:
        return await client.raw("/readyz") == b"ok"
    except KubeError:
        return False


def bound(user: str, role: str = "cluster-admin") -> dict[str, Any]:
    """A ClusterRoleBinding that gives a user a role."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{user}-{role}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
