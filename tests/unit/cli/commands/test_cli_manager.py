"""`laneway manager` is called rightly or says how, before it asks any cluster."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from laneway.cli.commands.roles import manager

CHECKED = ("--vsphere", "alongside", "--vsphere-check-nodes")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--vsphere-check-nodes",), "needs --vsphere alongside or standalone"),
        (("--vsphere", "alongside", "--vsphere-check-image", "a"), "needs --vsphere-check-nodes"),
        ((*CHECKED, "--vsphere-check-image", "a b"), "cannot be an image"),
        ((*CHECKED, "--vsphere-check-image", ""), "cannot be an image"),
        (("--namespace", "No"), "cannot be a namespace"),
    ],
)
def test_the_impossible_is_reported(arguments: tuple[str, ...], words: str) -> None:
    result = CliRunner().invoke(manager, arguments)

    assert result.exit_code in (1, 2)
    assert words in result.output


def test_a_right_call_goes_on_to_the_cluster() -> None:
    image = f"r.example/add:1@sha256:{'0a' * 32}"
    arguments = [*CHECKED, "--vsphere-check-image", image, "--kubeconfig", "/nonexistent"]
    result = CliRunner().invoke(manager, arguments)

    assert result.exit_code == 1
    assert "/nonexistent" in result.output
