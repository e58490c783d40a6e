"""A server in the foreground: say how to reach it, stop on Ctrl-C.

Standard output is for people and scripts that wait for its last line; the log goes to standard
error. What can go wrong with an argument or the machine ends in one line, with status 1. A
traceback is a defect of kapilite.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator

from kapilite.credentials.pki import PkiError
from kapilite.endpoints.app import KUBERNETES
from kapilite.server import ListenError
from kapilite.serving import Folder, credentials, make, serving
from kapilite.storage.database import StoreError
from kubebasics.files import FolderError
from kubebasics.saying import say

FAILURES = (FolderError, ListenError, PkiError, StoreError)


def serve(data_dir: str | None, host: str, port: int, log_level: str) -> None:
    """Serve until a signal ends it. Exits with one line where that fails."""
    logging.basicConfig(
        level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    if log_level != "debug":
        logging.getLogger("aiohttp.access").setLevel(logging.WARNING)  # a line per request
    try:
        asyncio.run(_serve(data_dir, host, port))
    except FAILURES as error:
        sys.exit(f"kapilite: {error}")
    except OSError as error:
        sys.exit(f"kapilite: {error.filename or host}: {error.strerror or error}")


async def _serve(data_dir: str | None, host: str, port: int) -> None:
    stop = asyncio.Event()
    # On SIGHUP too: credentials of a server in memory must not outlive its terminal.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with _folder(data_dir) as folder:
        contents = None if data_dir is not None else b""
        known = credentials(folder, host)
        async with serving(folder, known, host=host, port=port, contents=contents) as found:
            say("\n".join(_ready(found.url, folder, data_dir)))
            await stop.wait()
    with contextlib.suppress(OSError):  # The terminal may be gone.
        say("Stopped.")


@contextlib.contextmanager
def _folder(data_dir: str | None) -> Iterator[Folder]:
    """Where the server has its files: the directory of the user, or one for this run."""
    if data_dir is not None:
        if not data_dir:
            raise FolderError("--data-dir is empty: name a directory")
        yield make(data_dir)
        return
    with tempfile.TemporaryDirectory(prefix="kapilite-") as path:
        yield Folder(path)


def _ready(url: str, folder: Folder, data_dir: str | None) -> list[str]:
    kept = (
        "Objects are kept in memory until it stops; --data-dir DIR keeps them on disk."
        if data_dir is None
        else f"Objects are kept in {folder.database}."
    )
    return [
        f"kapilite serves the API of Kubernetes {'.'.join(KUBERNETES)} at {url}",
        kept,
        "",
        f"  export KUBECONFIG={shlex.quote(os.path.abspath(folder.kubeconfig))}",
        "  kubectl get namespaces",
        "",
        "Stop with Ctrl-C.",
    ]
