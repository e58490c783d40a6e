"""Pods, decoded only as far as the ledger reads them: a cluster has many.

Of a pod that requests no device nothing is kept but that it is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from laneway.api import ObjectMeta, decode
from laneway.kube.kubevirt import LABEL_CREATED_BY
from laneway.kube.resource import Resource


class _Light(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A part of an object."""


class Resources(_Light, frozen=True, kw_only=True, gc=False):
    """Of the resources of devices the limit is the request."""

    limits: Mapping[str, str | int | float] = {}


class Container(_Light, frozen=True, kw_only=True, gc=False):
    """What it requests."""

    resources: Resources = Resources()
    restart_policy: str = ""
    """Of an init container: `Always` if it runs alongside the others."""


class PodSpec(_Light, frozen=True, kw_only=True, gc=False):
    """What it requests, and where it is."""

    containers: Sequence[Container] = ()
    init_containers: Sequence[Container] = ()
    node_name: str = ""
    node_selector: Mapping[str, str] = {}
    service_account_name: str = ""


class PodStatus(_Light, frozen=True, kw_only=True, gc=False):
    """How far it is."""

    phase: str = ""


class Pod(_Light, frozen=True, kw_only=True, gc=False):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


def asks(pod: Pod) -> bool:
    """Whether a pod may be of interest at all."""
    return LABEL_CREATED_BY in pod.metadata.labels or any(
        "/" in name
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        for name in container.resources.limits
    )


def _pod(_: type[Pod], raw: bytes | msgspec.Raw) -> Pod:
    pod = decode(Pod, raw)
    if asks(pod):
        return pod
    meta = pod.metadata
    return Pod(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
            labels=_NOTHING,
            annotations=_NOTHING,
            finalizers=(),
            owner_references=(),
        )
    )


_NOTHING: Mapping[str, str] = MappingProxyType({})

PODS = Resource("", "v1", "pods", True, Pod, decoder=_pod)
