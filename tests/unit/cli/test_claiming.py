"""What `laneway claim` says of the claims that it wrote before it failed or was interrupted."""

from __future__ import annotations

import asyncio

import pytest

from laneway.api import PCIDeviceClaim
from laneway.changes.claims import Device
from laneway.cli.claiming import Written
from laneway.cli.errors import Failure
from laneway.kube.errors import ForbiddenError, KubeError, UnreachableError
from laneway.kube.resource import served

CLAIMS = served(PCIDeviceClaim)
ONE, TWO = (Device(f"node1/{n}", "node1", f"node1-{n}", CLAIMS) for n in (1, 2))
REFUSED = ForbiddenError(403, "Forbidden", 'admission webhook "w" denied the request: It is held.')


def failed(error: BaseException) -> str:
    """What is said where the second write ends with the error."""
    written = Written("Claimed", lambda targets: f"Undo {len(targets)}.")
    with written.begun(ONE):
        pass
    with pytest.raises(Failure) as raised, written, written.begun(TWO):
        raise error
    return raised.value.message


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (REFUSED, "refused. It is held. Claimed node1/1. Undo 1."),
        # The request may have arrived.
        (UnreachableError("no answer"), "Claimed node1/1, node1/2. Undo 2."),
    ],
)
def test_a_failure_says_what_was_written_before_it(error: KubeError, said: str) -> None:
    message = failed(error)

    assert message.endswith(said)
    assert "nothing was changed" not in message


def test_an_interruption_says_what_was_written_before_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    written = Written("Claimed", lambda targets: f"Undo {len(targets)}.")
    with pytest.raises(asyncio.CancelledError), written, written.begun(ONE):
        raise asyncio.CancelledError

    assert capsys.readouterr().err == "laneway: interrupted. Claimed node1/1. Undo 1.\n"


def test_a_failure_before_the_first_write_is_reported_unchanged() -> None:
    with pytest.raises(ForbiddenError), Written("Claimed", lambda _: "") as _:
        raise REFUSED
