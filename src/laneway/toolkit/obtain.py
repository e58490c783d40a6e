"""Has a package on the node, checked: from there, from a folder that is mounted, or by download."""

from __future__ import annotations

import asyncio
import os

from laneway.core.driver_toolkit import failure
from laneway.core.driver_toolkit.failure import ToolkitError
from laneway.core.driver_toolkit.settings import Settings, is_url
from laneway.host.plans.files import sync_folder
from laneway.toolkit import download as downloading
from laneway.toolkit.cache import Cache, hash_of, private_copy
from laneway.toolkit.download import PACE, Pace, Say


async def obtain(cache: Cache, settings: Settings, say: Say, pace: Pace = PACE) -> None:
    """Have the package in the cache. Raises ToolkitError; then no package is there."""
    if cache.has(settings.sha256):
        return
    try:
        part = cache.part(settings.sha256)
        if is_url(settings.location):
            await _download(settings, part, say, pace)
        else:
            await asyncio.to_thread(_copy, settings, part)
        os.replace(part, cache.package(settings.sha256))
        downloading.forget(part)
        sync_folder(cache.folder(settings.sha256))
    except OSError as error:
        raise ToolkitError(failure.no_room(error, cache.part(settings.sha256))) from None


async def _download(settings: Settings, part: str, say: Say, pace: Pace) -> None:
    """A part that was continued may be of two files, so only a fresh download is proof."""
    arrived = downloading.arrived(part)
    for continued in (arrived > 0, False):
        await downloading.download(settings, part, say, pace)
        found, size = await asyncio.to_thread(hash_of, part)
        if found == settings.sha256:
            return
        downloading.forget(part)
        if not continued:
            raise ToolkitError(failure.wrong_hash(settings.location, settings.sha256, found, size))
        say("what was continued does not have the expected hash; downloading all of it again")


def _copy(settings: Settings, part: str) -> None:
    downloading.forget(part)
    try:
        with open(settings.location, "rb"):
            pass
    except OSError as error:
        why = error.strerror or str(error)
        raise ToolkitError(failure.file_missing(settings.location, why)) from None
    found = private_copy(settings.location, part)
    if found != settings.sha256:
        size = os.stat(part).st_size
        downloading.forget(part)
        raise ToolkitError(failure.wrong_hash(settings.location, settings.sha256, found, size))
