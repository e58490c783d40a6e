"""What a kubelet remembers over its restarts: which container has which devices."""

from __future__ import annotations

import logging
import os

import msgspec

from laneway.sim.kubelet.pods import DeviceNode

log = logging.getLogger(__name__)

FILE = "kubelet_internal_checkpoint"


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """Of one resource, to one container; with the plugin's answer, which is not asked twice."""

    ids: tuple[str, ...]
    envs: dict[str, str]
    devices: tuple[DeviceNode, ...]


class AdmittedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod on this node."""

    namespace: str
    name: str
    containers: dict[str, dict[str, Given]]
    """By container and resource; a container without devices has none."""


class Checkpoint(msgspec.Struct, kw_only=True):
    """The file's content."""

    pods: dict[str, AdmittedPod] = {}
    """By uid."""
    resources: list[str] = []
    """For which there are or were plugins, and therefore a count in the node's status."""


def load(folder: str) -> Checkpoint:
    """Nothing where there is none; a broken one is reported and given up, as kubelets do."""
    try:
        with open(os.path.join(folder, FILE), "rb") as file:
            return msgspec.json.decode(file.read(), type=Checkpoint)
    except FileNotFoundError:
        return Checkpoint()
    except msgspec.DecodeError as error:
        log.warning("what the simulated kubelet remembered is broken: %s", error)
        return Checkpoint()


def save(folder: str, checkpoint: Checkpoint) -> None:
    """Replace the file whole."""
    path = os.path.join(folder, FILE)
    with open(f"{path}.new", "wb") as file:
        file.write(msgspec.json.encode(checkpoint))
    os.replace(f"{path}.new", path)
