"""A plugin's connections end with it, as those of a process do."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from laneway.kubelet.serving import serving


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_of_any_age_ends_with_the_plugin(tmp_path: Path, turns: int) -> None:
    here = os.open(tmp_path, os.O_PATH)
    try:
        async with serving(str(tmp_path), "plugin.sock", []):
            path = f"/proc/self/fd/{here}/plugin.sock"
            reader, writer = await asyncio.open_unix_connection(path)
            for _ in range(turns):
                await asyncio.sleep(0)
        async with asyncio.timeout(20):
            await reader.read()  # until the other side has hung up
        writer.close()
        await writer.wait_closed()
    finally:
        os.close(here)
