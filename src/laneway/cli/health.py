"""Where a process serves health and metrics, as the command line says it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

_ADDRESS = re.compile(r"(?P<host>\[[^]]+]|[^:]*):(?P<port>[0-9]{1,5})")
ADDRESS = "[HOST]:PORT"
"""As help texts name it."""
WHICH = "without HOST on all addresses, IPv4 and IPv6; an IPv6 address stands in brackets."


def health_address_option(port: int) -> Callable[[Any], Any]:
    """The option, with all addresses of the host and this port unless it is given."""
    return click.option(
        "--health-address",
        default=f":{port}",
        show_default=True,
        metavar=ADDRESS,
        help=f"Where /healthz, /readyz and /metrics are served: {WHICH}",
    )


def host_and_port(text: str, option: str = "--health-address") -> tuple[str, int]:
    """What the option says; an empty host means all addresses. Raises UsageError."""
    address = _ADDRESS.fullmatch(text)
    if address is None or int(address["port"]) > 65535:
        raise click.UsageError(f"{option} must be HOST:PORT or :PORT, not {text!r}")
    return address["host"].removeprefix("[").removesuffix("]"), int(address["port"])
