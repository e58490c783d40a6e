"""Names that the shell is offered, where an attacker chose them."""

from __future__ import annotations

from pathlib import Path

import click

from laneway.cli import cli, completion

HOSTILE = (
    "$(reboot)",
    "`reboot`",
    "a;reboot",
    "a\nplain,--all",
    "a\x1b[31m",
    "a b",
    "--all",
    "=ls",
)
USUAL = ("kubernetes-admin@kubernetes", "arn:aws:eks:eu-1:1:cluster/x", "node1/1-4.2", "A2-4Q")


def test_a_shell_is_offered_only_names_that_mean_themselves(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    contexts = [{"name": name, "context": {}} for name in (*HOSTILE, *USUAL)]
    file.write_text(str({"kind": "Config", "apiVersion": "v1", "contexts": contexts}))
    context = click.Context(cli)
    context.params["kubeconfig"] = str(file)

    assert completion.contexts(context, cli.params[0], "") == sorted(USUAL)
