"""The hosts that `laneway up` manages: this machine, and simulated ones as they were left."""

from __future__ import annotations

import os
import re
import socket
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from laneway.host.executors.local import LocalExecutor
from laneway.host.hardware import Hardware
from laneway.host.plans.state import open_state
from laneway.host.real import RealHost
from laneway.roles.datadir import DataDir
from laneway.sim.persistence import open_simulated
from laneway.sim.spec import Spec
from laneway.simcluster.runtime import Runtime

_KUBELET = "/var/lib/kubelet"


@dataclass(frozen=True)
class NodeHost:
    """A host that an agent manages."""

    node: str
    hardware: Hardware
    about: str
    kubelet: str
    """The folder of its kubelet; empty where there is none."""
    runtime: Runtime | None = None
    """What runs on a simulated one."""


def this_machine(data: DataDir) -> NodeHost:
    """The machine on which we run, with its kubelet if it has one."""
    node, real = label(socket.gethostname()), RealHost()
    hardware = Hardware(real, LocalExecutor(), open_state(data.node_state(node), real))
    kubelet = _KUBELET if os.path.isdir(_KUBELET) else ""
    return NodeHost(node, hardware, "this host", kubelet)


def simulated(specs: Sequence[Spec], data: DataDir) -> list[NodeHost]:
    """The simulated hosts; what runs on them has its devices open again, as if it never ended.

    Raises HostLogError, DumpError and RuntimeStateError.
    """
    hosts = []
    numbers: Counter[str] = Counter()
    for spec in specs:
        name = label(spec.label)
        about = f"simulated from {spec.path}" if spec.path else f"simulated {spec.model}"
        for _ in range(spec.count):
            numbers[name] += 1
            node = f"sim-{name}-{numbers[name]}"
            host = open_simulated(spec, node, data.host_log(node))
            hardware = Hardware(host, host, open_state(data.node_state(node), host))
            runtime = Runtime(host, data.containers(node))
            hosts.append(NodeHost(node, hardware, about, data.kubelet(node), runtime))
    return hosts


def label(text: str) -> str:
    """Text as a DNS label, which a node's name must be."""
    return re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")[:50].rstrip("-") or "node"
