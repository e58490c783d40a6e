"""The command `kapilite`: start a server, say how to reach it, stop on Ctrl-C.

Standard output is for people and scripts that wait for its last line; the log goes to standard
error. What can go wrong with an argument or the machine ends in one line, with status 1. A
traceback is a defect of kapilite.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import version

from kapilite.credentials.pki import PkiError
from kapilite.endpoints.app import KUBERNETES
from kapilite.server import ListenError
from kapilite.serving import LOOPBACK, Folder, credentials, make, serving
from kapilite.storage.database import StoreError
from kubebasics.files import FolderError

PORT = 6443
LEVELS = ("debug", "info", "warning", "error")
FAILURES = (FolderError, ListenError, PkiError, StoreError)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: run the command and exit with its status."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    if options.log_level != "debug":
        logging.getLogger("aiohttp.access").setLevel(logging.WARNING)  # a line per request
    try:
        asyncio.run(_serve(options.data_dir, options.host, options.port))
    except KeyboardInterrupt:  # before the server was there to be stopped
        sys.exit(130)
    except FAILURES as error:
        sys.exit(f"kapilite: {error}")
    except OSError as error:
        sys.exit(f"kapilite: {error.filename or options.host}: {error.strerror or error}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kapilite",
        description="A Kubernetes API server on SQLite; for tests and one machine.",
    )
    parser.add_argument("--version", action="version", version=f"kapilite {version('kapilite')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve = commands.add_parser(
        "serve",
        help="Start an API server and run until Ctrl-C.",
        description="Start an API server and run until Ctrl-C or SIGTERM. Prints how to reach it "
        "once it is ready.",
        epilog="Example: a server that continues where it stopped.  "
        "kapilite serve --data-dir ./cluster",
    )
    serve.add_argument(
        "--data-dir",
        metavar="DIR",
        help="Keep objects and credentials in this directory; a later start with it continues. "
        "Default: objects are kept in memory and are lost when the server stops.",
    )
    serve.add_argument(
        "--host",
        default=LOOPBACK,
        metavar="ADDRESS",
        help="Address to listen on (default: %(default)s).",
    )
    serve.add_argument(
        "--port",
        default=PORT,
        type=_port,
        help="Port to listen on; 0 takes any free one (default: %(default)s).",
    )
    serve.add_argument(
        "--log-level",
        choices=LEVELS,
        default="warning",
        help="What to log on stderr (default: %(default)s).",
    )
    return parser


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: give a number from 0 to 65535")
    return int(text)


async def _serve(data_dir: str | None, host: str, port: int) -> None:
    stop = asyncio.Event()
    # On SIGHUP too: credentials of a server in memory must not outlive its terminal.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with _folder(data_dir) as folder:
        contents = None if data_dir is not None else b""
        known = credentials(folder, host)
        async with serving(folder, known, host=host, port=port, contents=contents) as found:
            print("\n".join(_ready(found.url, folder, data_dir)), flush=True)
            await stop.wait()
    with contextlib.suppress(OSError):  # The terminal may be gone.
        print("Stopped.", flush=True)


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
