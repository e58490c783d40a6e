"""How a command asks an agent, and what it says about a refusal."""

from __future__ import annotations

from laneway.changes.trial import passing, refusal_words
from laneway.cli import asking
from laneway.controllers.devices.layout import NOT_LATER
from laneway.views.answers import Answer


def test_a_command_does_not_advise_about_a_layout_that_it_leaves_as_it_was() -> None:
    answer = Answer("refused", "UpdateRejected", f"VM default/vm has it. {NOT_LATER}")
    assert passing(answer)
    assert asking.told(refusal_words(answer), advise=True) == [
        "UpdateRejected: VM default/vm has it.",
        "To store it and have it applied once it is possible, add --when-possible.",
    ]
    assert asking.told(refusal_words(answer), advise=False) == [
        "UpdateRejected: VM default/vm has it."
    ]


def test_who_does_not_wait_gives_the_agent_half_a_minute_for_its_answer() -> None:
    assert [asking.patience(300, wait=wait) for wait in (True, False)] == [300, 30]
    assert asking.patience(5, wait=False) == 5
