"""When a node is again as its objects request it: what hands devices out waits for that.

After a start every object is answered once, and what a reboot has cleared is made again: a GPU's
virtual functions, its mode, its GPU instances, its vGPUs. Which of them comes when the controllers
know. This only says when nothing is left to be done: when no plan runs, and no object has a
desired state that could be met and has not been tried. What was refused or has failed does not
delay it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from laneway.controllers.acting import ActingController

_POLL_SECONDS = 0.05
"""For what ends by no event of a controller: a cache that lags, a retry."""


async def restored(controllers: Sequence[ActingController[Any, Any]]) -> None:
    """Wait until the desired states of all objects are met, as far as they can be."""
    for controller in controllers:
        await controller.published.wait()
    while True:
        for controller in controllers:
            await controller.queue.join()
        if not any(one.queue.busy or one.unmet() for one in controllers):
            return
        await asyncio.sleep(_POLL_SECONDS)
