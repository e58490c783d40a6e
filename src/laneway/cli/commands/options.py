"""Options that several commands share, and defaults for help texts.

The defaults are spelled out here: the modules that own them take long to import. A test compares
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import click

from laneway.cli import completion

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

MODELS = "a2, a2-vfio, l40s, a100, hgx-h100, plain, rtx-pro-6000, workstation, mi210, flex-170"
"""Simulated hosts."""
NAMESPACE = "harvester-system"
STATE_FOLDER = "/var/lib/laneway"
DRIVER_FOLDER = "/var/lib/laneway/driver"
KUBELET_FOLDER = "/var/lib/kubelet"
LEASE = "laneway-manager"
SHARED_MODES = ("SameSize", "MixedSize", "MIGBacked")
MODES = ("Passthrough", "SameSize", "MixedSize", "MIG", "MIGBacked")
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")
OUTPUTS = ("json", "yaml", "wide", "name")

simulate_option = click.option(
    "--simulate",
    metavar="SPEC",
    shell_complete=completion.hosts,
    help=f"Read a simulated host instead: a model ({MODELS}) or the path of a dump.",
)

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(OUTPUTS),
    help="The form of the output, as for kubectl. Default: a table.",
)
"""A table unless it is given; the value is for `output.show`."""

plain_output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["json", "yaml", "name"]),
    help="The form of the output, as for kubectl. Default: text.",
)

watch_option = click.option(
    "-w",
    "--watch",
    is_flag=True,
    help="Print again after every change, until Ctrl-C.",
)

dry_run_option = click.option(
    "--dry-run",
    is_flag=True,
    help="Print what the command would do, or why it is refused. Change nothing.",
)


def timeout_option(seconds: int, text: str = "How long to wait.") -> Decorator:
    """`--timeout`, in seconds."""
    return click.option(
        "--timeout",
        type=click.IntRange(1, 86400),
        default=seconds,
        show_default=True,
        metavar="SECONDS",
        help=text,
    )


def log_options(level: str = "info", form: str = "text at a terminal, otherwise json") -> Decorator:
    """`--log-level` and `--log-format`; the values are for `logs.configure`."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        command = click.option(
            "--log-format",
            type=click.Choice(LOG_FORMATS),
            help=f"The form of the log on standard error. Default: {form}.",
        )(command)
        return click.option(
            "--log-level",
            type=click.Choice(LOG_LEVELS),
            default=level,
            show_default=True,
            help="The least severe messages that are logged.",
        )(command)

    return add


def traces_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--otlp-endpoint`; the value is for `roles.telemetry`."""
    return click.option(
        "--otlp-endpoint",
        envvar="OTEL_EXPORTER_OTLP_ENDPOINT",
        show_envvar=True,
        default="",
        metavar="URL",
        help="Send traces of changes to this receiver of OTLP over HTTP, for example "
        "http://collector.monitoring:4318. It needs laneway[otel]. Default: no traces.",
    )(command)


class NumberRange(click.FloatRange):
    """A number in a range. NaN is in every range for click, because it compares with nothing."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value!r} is no number", param, ctx)
        return float(found)


def read_by(target: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback that reads a value with `module:function`, which is imported for it."""

    def read(_context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        if value is None:
            return None
        module, _, function = target.partition(":")
        return getattr(import_module(module), function)(value)

    return read
