"""Who has a device: written by the agent of its node, from what the node's kubelet says."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class Allocation(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """The pod to which the kubelet gave a device, and the virtual machine that it runs."""

    namespace: Annotated[str, Meta(description="Of the pod and its VM.")] = ""
    pod: Annotated[str, Meta(description="The pod that has the device.")] = ""
    virtual_machine: Annotated[
        str, Meta(description="The VM in the pod; empty where it runs none.")
    ] = ""
