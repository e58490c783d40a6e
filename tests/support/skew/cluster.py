"""A cluster whose parts of Laneway are processes, each of the version that a test says.

Kubernetes, KubeVirt and the nodes' hardware are simulated in this process and stay, whatever is
upgraded. The chart is installed by Helm; every part has only the account that the chart gives it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import shutil
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from support.accounts import AGENT, MANAGER, NAMESPACE, REAL, WEBHOOK, Installed, ask, secret_path
from support.helm import Helm
from support.plans import BOOT
from support.processes import Laneway
from support.skew.remote_host import reachable
from support.skew.service import Service
from support.skew.trees import TODAY, Tree
from support.skew.writes import LEASE, Writes
from support.world_parts import Parts
from support.worlds import SimNode, World

SECONDS = 60.0
OFTEN = 3
"""A process that says the same warning more often does so in a loop."""


@dataclass
class Part:
    """A process in the place of a pod."""

    component: str
    tree: Tree
    process: Laneway
    port: int = 0
    """Where a webhook answers."""
    ended: bool = False

    @property
    def problems(self) -> Counter[str]:
        """Warnings and errors, and lines that are no records, such as those of a traceback."""
        found: Counter[str] = Counter()
        for line in list(self.process.lines):
            record = json.loads(line) if line.startswith("{") else {"level": "?", "message": line}
            if record["level"] not in ("INFO", "DEBUG"):
                found[record["message"].partition("\n")[0]] += 1
        return found


@dataclass
class Cluster:
    """What a test does to it."""

    kubeconfig: str
    client: Client
    folder: Path
    free_port: Callable[[], int]
    installed: Installed
    stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    """Of the nodes."""
    parts: list[Part] = field(default_factory=list)
    tokens: dict[str, str] = field(default_factory=dict)
    """Of agents, by node."""

    def __post_init__(self) -> None:
        known = Parts(self.client, self.client, self.client)
        self.world = World(known, self.folder / "w")
        self.helm = Helm(self.kubeconfig, NAMESPACE)
        self.service = Service()
        self.writes = Writes(self.client)

    async def install(self, tree: Tree) -> None:
        """Helm installs a version's chart; the webhook's Service leads to its processes."""
        await asyncio.to_thread(self.helm.install, self.chart(tree), {})
        if REAL:
            return
        ports = [{"name": "https", "port": self.service.port}]
        await ask(
            self.client,
            "POST",
            f"/api/v1/namespaces/{NAMESPACE}/endpoints",
            {
                "apiVersion": "v1",
                "kind": "Endpoints",
                "metadata": {"name": WEBHOOK},
                "subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": ports}],
            },
        )

    async def upgrade(self, tree: Tree) -> None:
        await asyncio.to_thread(self.helm.upgrade, self.chart(tree), {})

    async def rollback(self) -> None:
        await asyncio.to_thread(self.helm.rollback)

    def chart(self, tree: Tree) -> Path:
        """A version's chart; where no Endpoints are looked at, with this machine in the Service."""
        if not REAL:
            return tree.chart
        folder = self.folder / f"chart-{tree.name}"
        if not folder.exists():
            # Definitions of others are there: Helm, which may not change them, would fail. And the
            # previous version's policies of the manager refuse all that they judge.
            left_out = ["crds"] if tree is TODAY else ["crds", "rbac-manager-policy.yaml"]
            shutil.copytree(tree.chart, folder, ignore=shutil.ignore_patterns(*left_out))
            for name in ("services", "webhooks"):
                path = folder / "templates" / f"{name}.yaml"
                text = path.read_text().replace("port: 443", f"port: {self.service.port}")
                here = "spec:\n  type: ExternalName\n  externalName: localhost\n  selector:"
                path.write_text(text.replace("spec:\n  selector:", here, 1))
        return folder

    async def start(self, manager: Tree, webhook: Tree, **agents: Tree) -> None:
        """One process of each; the agents by the names of their nodes."""
        await self.manager(manager)
        await self.webhook(webhook)
        for node, tree in agents.items():
            await self.agent(tree, node)

    async def manager(self, tree: Tree) -> Part:
        health = self.free_port()
        part = await self._run(tree, MANAGER, "manager", f"--health-address=127.0.0.1:{health}")
        await self._ready(part, health)
        return part

    async def webhook(self, tree: Tree) -> Part:
        """One more pod of the webhook, which is asked from now on."""
        folder = self.folder / f"tls-{len(self.parts)}"
        await self._mount(folder)
        port, health = self.free_port(), self.free_port()
        files = (f"--tls-cert-file={folder}/tls.crt", f"--tls-key-file={folder}/tls.key")
        where = (f"--address=127.0.0.1:{port}", f"--health-address=127.0.0.1:{health}")
        part = await self._run(tree, WEBHOOK, "webhook", *files, *where)
        await self._ready(part, health)
        part.port = port
        self.service.pods.append(port)
        return part

    async def node(self, name: str, spec: str) -> SimNode:
        """A node without an agent."""
        node = await self.world.add(name, spec, agent=False)
        await self.stack.enter_async_context(reachable(node.host, str(node.folder / "h")))
        return node

    async def agent(self, tree: Tree, name: str) -> Part:
        """The node's agent, once it has published the devices."""
        node = self.world.nodes[name]
        if name not in self.tokens:
            self.tokens[name] = await self.installed.token(AGENT, node=name)
        arguments = (name, self._kubeconfig(self.tokens[name]), str(node.folder / "h"))
        hardware = (str(node.folder / "state"), BOOT, node.kubelet_folder)
        program = (str(Path(__file__).with_name("agent.py")),)
        process = Laneway(*arguments, *hardware, program=program, PYTHONPATH=tree.path)
        part = Part(AGENT, tree, process)
        self.parts.append(part)
        await asyncio.to_thread(process.until, f"the devices of node {name} are published")
        return part

    async def end(self, part: Part) -> None:
        """As the kubelet ends a pod while the Service forgets it."""
        part.process.process.terminate()
        if part.port:
            self.service.pods.remove(part.port)
        assert await asyncio.to_thread(part.process.ended) == 0, part.process.said
        part.ended = True

    async def leader(self, manager: Part) -> None:
        """Wait until this manager leads."""
        await asyncio.to_thread(manager.process.until, "leading: ")

    def kill(self) -> None:
        """End what still runs; pytest shows what each said if the test fails."""
        for part in self.parts:
            print(f"-- {part.component} of {part.tree.name}\n{part.process.said}")  # noqa: T201
            if part.process.process.poll() is None:
                part.process.end(9)

    def check(self) -> None:
        """No process ended by itself, failed or complained in a loop."""
        for part in self.parts:
            assert part.ended or part.process.process.poll() is None, part.process.said
            assert "Traceback" not in part.process.said
            often = {text: n for text, n in part.problems.items() if n > OFTEN}
            assert not often, (part.component, part.tree.name, often)

    async def _run(self, tree: Tree, account: str, role: str, *arguments: str) -> Part:
        token = await self.installed.token(account)
        known = (f"--namespace={NAMESPACE}", f"--kubeconfig={self._kubeconfig(token)}")
        process = Laneway(role, *known, *arguments, PYTHONPATH=tree.path)
        part = Part(account, tree, process)
        self.parts.append(part)
        return part

    def _kubeconfig(self, token: str) -> str:
        config = yaml.safe_load(Path(self.kubeconfig).read_text())
        config["users"][0]["user"] = {"token": token}
        path = self.folder / f"kubeconfig-{len(self.parts)}"
        path.write_text(yaml.safe_dump(config))
        return str(path)

    async def _mount(self, folder: Path) -> None:
        """The files of the webhook's Secret, once the manager has made it."""
        async with asyncio.timeout(SECONDS):
            while True:
                with contextlib.suppress(NotFoundError):
                    secret = await ask(self.client, "GET", secret_path())
                    break
                await asyncio.sleep(0.05)
        _write(folder, {key: secret["data"][key] for key in ("tls.crt", "tls.key")})

    async def _ready(self, part: Part, port: int) -> None:
        async with asyncio.timeout(SECONDS):
            while not await asyncio.to_thread(_answers, port):
                assert part.process.process.poll() is None, part.process.said
                await asyncio.sleep(0.05)


def _write(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(base64.b64decode(content))


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=SECONDS) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextlib.asynccontextmanager
async def running(cluster: Cluster) -> AsyncIterator[Cluster]:
    """Kubernetes and KubeVirt run until the block ends, and then nothing does."""
    world = cluster.world
    world.start_kubernetes()
    try:
        async with cluster.service.listening(), cluster.stack:
            try:
                yield cluster
            finally:
                await asyncio.to_thread(cluster.kill)
    finally:
        await world.stop()
        if REAL:  # Others use the server. Without the webhook it refuses nothing any more.
            await asyncio.to_thread(cluster.helm.uninstall)
            await world.clean()
            await cluster.installed.uninstall()
            with contextlib.suppress(NotFoundError):
                await ask(cluster.client, "DELETE", LEASE)
