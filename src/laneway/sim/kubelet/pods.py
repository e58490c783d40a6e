"""What a pod asks a kubelet for, and what its containers get."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class PodRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A pod as far as the device manager looks at it."""

    uid: str
    namespace: str
    name: str
    containers: Mapping[str, Mapping[str, int]]
    """Limits of extended resources, by container and resource, in the order of the containers."""
    running: bool = False
    """Its containers run already: what a kubelet finds that restarted while they ran."""


class DeviceNode(msgspec.Struct, frozen=True):
    """A device file that the container sees."""

    container_path: str
    host_path: str
    permissions: str


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What one container gets of all its plugins."""

    envs: dict[str, str] = {}
    devices: tuple[DeviceNode, ...] = ()
    ids: dict[str, tuple[str, ...]] = {}
    """By resource, sorted."""


class AdmissionError(Exception):
    """The kubelet fails the pod: phase Failed with this reason, the text as message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class KubeletDiedError(Exception):
    """The kubelet ended while it was asked; the pod has neither been admitted nor failed."""
