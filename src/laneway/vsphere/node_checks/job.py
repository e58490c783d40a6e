"""The Job that adds vectors on a node, and what became of it: objects of a workload cluster.

It requests one GPU of one node by the scheduler's rules, so it waits where all are in use. It ends
and goes by itself, and has no right that it does not need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from laneway.api import Condition, ObjectMeta
from laneway.core.gpu.sample import pod_spec, with_image
from laneway.core.gpu.vendors import Vendor
from laneway.kube.resource import Resource

SECONDS = 900
"""The Job is given up after so long: an image of some hundred megabytes comes first."""
LINGER_SECONDS = 600
"""It deletes itself so long after its end, in case no manager has deleted it."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an object."""


class NodeSpec(_Part, frozen=True, kw_only=True):
    """What is said of a node."""

    provider_id: str = msgspec.field(default="", name="providerID")


class NodeStatus(_Part, frozen=True, kw_only=True):
    """What a node has."""

    allocatable: Mapping[str, str | int] = {}


class Node(_Part, frozen=True, kw_only=True):
    """A node of a workload cluster."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class JobStatus(_Part, frozen=True, kw_only=True):
    """What became of a Job."""

    conditions: Sequence[Condition] = ()


class Job(_Part, frozen=True, kw_only=True):
    """Work that ends."""

    metadata: ObjectMeta = ObjectMeta()
    status: JobStatus = JobStatus()


NODES = Resource("", "v1", "nodes", False, Node)
JOBS = Resource("batch", "v1", "jobs", True, Job)


def job(name: str, host: str, image: str, resource: str) -> dict[str, Any]:
    """A Job that runs an image with one GPU of the node that has a host's label."""
    pod = pod_spec(with_image(Vendor.NVIDIA, image), resource, host)
    return {
        "apiVersion": JOBS.api_version,
        "kind": "Job",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "laneway"}},
        "spec": {
            "backoffLimit": 1,
            "activeDeadlineSeconds": SECONDS,
            "ttlSecondsAfterFinished": LINGER_SECONDS,
            "template": {"spec": pod},
        },
    }


def outcome(found: Job) -> tuple[bool, str]:
    """Whether a Job has ended, and why it failed; empty: it did not."""
    for one in found.status.conditions:
        if one.status == "True" and one.type in ("Complete", "Failed"):
            said = f"{one.reason}: {one.message}" if one.message else one.reason
            return True, "" if one.type == "Complete" else said or "no reason given"
    return False, ""
