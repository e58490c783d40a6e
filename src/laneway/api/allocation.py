"""Who holds a device: the agent of its node writes what the node's kubelet reports."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class Allocation(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """The pod to which the kubelet allocated a device, and its VM."""

    namespace: Annotated[str, Meta(description="Namespace of the pod and its VM.")] = ""
    pod: Annotated[str, Meta(description="The pod that holds the device.")] = ""
    virtual_machine: Annotated[
        str, Meta(description="The VM in the pod; empty if the pod runs none.")
    ] = ""
