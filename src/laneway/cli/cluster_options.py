"""Which cluster a command asks: `--kubeconfig`, `--context` and `--namespace`, as for kubectl."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from laneway.cli import completion
from laneway.cli.namespaces import checked_namespace

Command = Callable[..., Any]


class ClusterChoice(NamedTuple):
    """The cluster that a command asks."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    """None: that of the context."""


_REACHING = (
    click.option(
        "--kubeconfig",
        metavar="PATH",
        type=click.Path(),
        help="The kubeconfig file. Default: $KUBECONFIG, ~/.kube/config, or the service account "
        "of the pod.",
    ),
    click.option(
        "--context",
        metavar="NAME",
        shell_complete=completion.contexts,
        help="The context of the kubeconfig. Default: the current context.",
    ),
)
_NAMESPACE = "The namespace of VMs and other namespaced objects. Default: that of the context."


def role_options(command: Command) -> Command:
    """`--kubeconfig` and `--context`, for the parts of Laneway that run in a cluster."""
    for option in reversed(_REACHING):
        command = option(command)
    return command


def cluster_options(command: Command, namespaces: str = _NAMESPACE) -> Command:
    """`--kubeconfig`, `--context` and `--namespace`; the command gets them as `where`.

    A name that no namespace can have is refused. `namespaces`: the help of `--namespace`.
    """

    @functools.wraps(command)
    def packed(
        *args: Any,
        kubeconfig: str | None,
        context: str | None,
        namespace: str | None,
        **given: Any,
    ) -> Any:
        if namespace is not None:
            checked_namespace(namespace)
        return command(*args, where=ClusterChoice(kubeconfig, context, namespace), **given)

    found: Command = packed
    namespaced = click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        shell_complete=completion.namespaces,
        help=namespaces,
    )
    for option in reversed((*_REACHING, namespaced)):
        found = option(found)
    return found
