"""What is known of a cluster when it is judged. What may not be read stands in `unknown`."""

from __future__ import annotations

from typing import Literal

import msgspec

AGENT, MANAGER, WEBHOOK = "laneway-agent", "laneway-manager", "laneway-webhook"
"""What the workloads of Laneway are called in a cluster."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """A DaemonSet or Deployment."""

    kind: str
    namespace: str
    name: str
    wanted: int = 0
    """Pods that there should be."""
    ready: int = 0
    present: int = 0
    """Pods that there are, or that the cluster says are placed."""
    images: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def version(self) -> str:
        """The tag of its first image; empty where it has none."""
        image = self.images[0] if self.images else ""
        _, colon, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
        return tag if colon else ""


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """One of the CustomResourceDefinitions that Laneway needs."""

    name: str
    present: bool = False
    established: bool = False
    versions: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    """Fields of ours that the cluster does not keep."""
    adds: tuple[str, ...] = ()
    """Fields that the cluster keeps and ours does not have."""
    release: str = ""
    """The Helm release that would take it along when it is uninstalled."""


Trust = Literal["fits", "missing", "other", "unknown"]
"""A webhook's CA: issues the certificate, is not there, issues another one, cannot be compared."""


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """One webhook of one configuration."""

    configuration: str
    kind: Literal["Mutating", "Validating"]
    name: str
    failure_policy: str = ""
    trust: Trust = "unknown"
    service: str = ""
    """`namespace/name`; empty for a URL."""
    reachable: bool = True
    """Whether its service is there."""
    resources: tuple[str, ...] = ()
    """What it is asked about, as `plural.group`."""


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """The certificate of the webhook."""

    secret: str
    expires: str
    """As a time that people read."""
    days: float
    """Until then; negative once it is over."""


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """A KubeVirt."""

    title: str
    version: str = ""
    phase: str = ""
    gates: tuple[str, ...] = ()
    permits: bool = False
    """Whether anybody has said which devices are permitted."""
    internal: tuple[str, ...] = ()
    """Resources that KubeVirt advertises itself and Laneway's claims or vGPUs have, too."""


class ClusterNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node, as far as it concerns us."""

    name: str
    gpus: bool = False
    agent: bool = False
    """Whether an agent of Laneway's manages it."""
    driver: str = ""
    """Why the driver that the toolkit installs is not in service, as its agent says."""
    driver_failed: bool = False
    """Whether a person has to do something about it."""


class Stuck(msgspec.Struct, frozen=True, kw_only=True):
    """An object that is being deleted and does not go."""

    resource: str
    """`plural.group`: of the kind Node there are two."""
    name: str
    since: str
    node: str = ""
    finalizers: tuple[str, ...] = ()
    answer: str = ""
    """What its agent says."""
    ours: bool = False
    """Whether only an agent of Laneway's is waited for."""


class Addon(msgspec.Struct, frozen=True, kw_only=True):
    """Harvester's object that has its controller installed."""

    enabled: bool
    status: str = ""


class Harvester(msgspec.Struct, frozen=True, kw_only=True):
    """Harvester's PCI devices controller in the cluster."""

    seen: bool = True
    """Whether all of it could be seen, but for the Addon; else more of it may be there."""
    daemon_set: Workload | None = None
    parked: bool = False
    """It is kept from running by Laneway's takeover."""
    hooks: tuple[str, ...] = ()
    """Its webhook configurations, each as `Kind/name`."""
    addon: Addon | None = None
    saved: bool = False
    """What a takeover has changed is recorded."""

    @property
    def runs(self) -> bool:
        return self.daemon_set is not None and not (self.parked and not self.daemon_set.present)

    @property
    def there(self) -> bool:
        """Whether there is anything of it."""
        return bool(self.daemon_set or self.hooks or (self.addon and self.addon.enabled))


Unseen = Literal["definitions", "parts", "hooks", "kubevirts", "nodes"]
"""What of a cluster could not be seen, or not all of it: definitions, Laneway's parts, its webhook
configurations, KubeVirt, which nodes have an agent."""


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """An object that is not what its kind says."""

    resource: str
    name: str
    """With its namespace, if it has one."""
    problem: str

    @property
    def title(self) -> str:
        return f"{self.resource} {self.name}"


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a cluster."""

    version: str = ""
    definitions: tuple[Definition, ...] = ()
    agents: Workload | None = None
    managers: Workload | None = None
    webhooks: Workload | None = None
    hooks: tuple[Hook, ...] = ()
    certificate: Certificate | None = None
    kubevirts: tuple[Installation, ...] = ()
    nodes: tuple[ClusterNode, ...] = ()
    stuck: tuple[Stuck, ...] = ()
    harvester: Harvester = Harvester()
    unseen: frozenset[Unseen] = frozenset()
    """Of these, what the facts lack may be there all the same."""
    unknown: tuple[str, ...] = ()
    """What could not be seen, a sentence each."""
    unreadable: tuple[Unreadable, ...] = ()
