"""The command `kapilite`: its arguments.

What serves takes a second to import, so it is imported when it runs.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Sequence
from importlib.metadata import version

PORT = 6443
LEVELS = ("debug", "info", "warning", "error")


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: run the command and exit with its status."""
    # Until the server handles it, Ctrl-C has nothing to tidy up, and no traceback to show.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    options = _parser().parse_args(arguments)
    from kapilite.foreground import serve  # noqa: PLC0415 - slow to import

    serve(options.data_dir, options.host, options.port, options.log_level)


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
        default="127.0.0.1",
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
