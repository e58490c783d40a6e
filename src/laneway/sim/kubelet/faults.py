"""What a test has go wrong in the kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from grpclib import GRPCError, Status

Behaviour = Literal["answer", "hang", "close", "refuse"]
"""`hang`: never answers. `close`: ends the connection instead. `refuse`: answers with an error."""


@dataclass
class Faults:
    """Change at any time; holds for what comes next."""

    register: Behaviour = "answer"
    pod_resources: Behaviour = "answer"
    unreported_pods: int = 0
    """So many of the next answers name no pod, as after a start while it has not heard of any."""
    die_before_allocate: bool = False
    """The kubelet ends once, when it has chosen devices but has not yet requested them."""


async def behave(behaviour: Behaviour, disconnect: Callable[[], None]) -> None:
    """Come back only to answer."""
    if behaviour == "answer":
        return
    if behaviour == "refuse":
        raise GRPCError(Status.UNAVAILABLE, "the kubelet takes no requests now")
    if behaviour == "close":
        disconnect()
    await asyncio.get_running_loop().create_future()
