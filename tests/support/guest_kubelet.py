"""A kubelet for a guest of the rig, as a program: `python guest_kubelet.py FOLDER`.

It reads one JSON line per request from the FIFO `FOLDER/ask` and answers with one on `FOLDER/told`,
so that a shell in the guest can ask it: `{"allocatable": RESOURCE}`, `{"admit": POD}` or
`{"remove": UID}`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import msgspec

from laneway.sim.kubelet.kubelet import Kubelet
from laneway.sim.kubelet.pods import AdmissionError, PodRequest


async def answer(kubelet: Kubelet, asked: dict[str, Any]) -> Any:
    """One request."""
    match asked:
        case {"allocatable": resource}:
            return kubelet.allocatable.get(resource, 0)
        case {"admit": pod}:
            try:
                grants = await kubelet.admit(msgspec.convert(pod, PodRequest))
            except AdmissionError as error:
                return {"refused": f"{error.reason}: {error}"}
            return {name: grant.envs for name, grant in grants.items()}
        case {"remove": uid}:
            kubelet.remove(uid)
    return None


async def main(folder: str) -> None:
    """Serve until killed."""
    kubelet = Kubelet(folder)
    await kubelet.start()
    paths = [os.path.join(folder, name) for name in ("ask", "told")]
    for path in paths:
        os.mkfifo(path)
    # Both ends of each are kept open, so that no end of a client is the end of a pipe.
    asks, reported = (os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in paths)
    lines = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(asks, "rb", buffering=0)
    )
    while line := await lines.readline():
        answered = await answer(kubelet, msgspec.json.decode(line))
        os.write(reported, msgspec.json.encode(answered) + b"\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
