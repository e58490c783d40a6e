"""The two kinds called Node: Kubernetes' own, and the device group's marker of an agent's node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from laneway.api.fields import API_VERSION
from laneway.api.meta import Condition, ObjectMeta, Status


class CoreNodeSpec(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """What an administrator decided about a node."""

    unschedulable: bool = False


class CoreNodeStatus(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """What its kubelet says."""

    conditions: Sequence[Condition] = []


class CoreNode(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A node of the cluster (`v1`), as far as Laneway reads it: who it is, and whether it works."""

    api_version: str = "v1"
    kind: str = "Node"
    metadata: ObjectMeta = ObjectMeta()
    spec: CoreNodeSpec = CoreNodeSpec()
    status: CoreNodeStatus = CoreNodeStatus()


class NodeSelector(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """Selects nodes. Empty: all nodes."""

    match_labels: Annotated[
        Mapping[str, str], Meta(description="Labels of the Kubernetes node. All must match.")
    ] = {}
    names: Annotated[Sequence[str], Meta(description="Names of nodes.")] = []

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether it selects a node with this name and these labels."""
        named = not self.names or name in self.names
        return named and all(labels.get(key) == value for key, value in self.match_labels.items())


class DeviceNodeSpec(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """Empty."""


class DeviceNodeStatus(Status, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The state of the node, from its agent."""


class DeviceNode(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A node with an agent; it has the name of the cluster's node."""

    api_version: str = API_VERSION
    kind: str = "Node"
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceNodeSpec = DeviceNodeSpec()
    status: DeviceNodeStatus = DeviceNodeStatus()
