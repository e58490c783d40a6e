"""Process: what `laneway manager --vsphere standalone` has for vSphere, leading at once.

    python -m support.vsphere_manager KUBECONFIG

Says that it runs, and then at every line what it has used so far.
"""

from __future__ import annotations

import asyncio
import sys
import time

from prometheus_client import CollectorRegistry

from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.events import EventRecorder
from laneway.roles.vsphere import Vsphere
from support.children import orders, say
from support.memory import resident


async def run(kubeconfig: str) -> None:
    async with Client(load(kubeconfig)) as client:
        recorder = EventRecorder(client, "laneway-manager")
        vsphere = Vsphere(client, CollectorRegistry(), recorder, standalone=True)
        running = [
            *(one.run() for one in vsphere.caches.all.values()),
            recorder.run(),
            *(part.run() for part in vsphere.parts),
        ]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in running]
            for informer in vsphere.needed.values():
                await informer.synced.wait()
            say({"memory": resident()})
            async for _ in orders():
                say({"cpu": time.process_time(), "memory": resident()})
            for task in tasks:
                task.cancel()


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1]))
