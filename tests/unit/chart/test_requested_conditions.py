"""Which writes of Laneway's own kinds are sent to have it noted who requested them."""

from __future__ import annotations

from typing import Any

import pytest

from kapilite.cel.program import CALL_LIMIT, Budget, program
from laneway.admission.requesting import DECISIVE
from laneway.core import keys
from support.chart import Object, render

NAME = "claims.laneway.harvesterhci.io"
AGENT, MANAGER = (
    f"system:serviceaccount:harvester-system:laneway-{name}" for name in ("agent", "manager")
)


@pytest.fixture(scope="module")
def conditions() -> list[Object]:
    (found,) = [
        webhook["matchConditions"]
        for one in render()
        if one["kind"] == "MutatingWebhookConfiguration"
        for webhook in one["webhooks"]
        if webhook["name"] == NAME
    ]
    return list(found)


def asked(conditions: list[Object], new: Any, old: Any, user: str = "alice") -> bool:
    scope = {"object": new, "oldObject": old, "request": {"userInfo": {"username": user}}}
    return all(program(one["expression"]).evaluate(scope, Budget(CALL_LIMIT)) for one in conditions)


def made(enabled: bool | None = False, **metadata: Any) -> Any:
    spec = {} if enabled is None else {"spec": {"enabled": enabled}}
    return {"metadata": {"name": "a", **metadata}, **spec}


@pytest.mark.parametrize("old", [None, made(), made(None)])
def test_a_users_desired_state_is_noted_and_laneways_own_costs_nothing(
    conditions: list[Object], old: Any
) -> None:
    assert asked(conditions, made(enabled=True), old)
    assert not asked(conditions, made(enabled=True), old, AGENT)
    assert not asked(conditions, made(enabled=True), old, MANAGER)


def test_what_requests_nothing_else_is_not_sent(conditions: list[Object]) -> None:
    assert not asked(conditions, made(labels={"a": "b"}, annotations={"c": "d"}), made())
    assert not asked(conditions, made(None, finalizers=[]), made(None))


@pytest.mark.parametrize("key", [keys.ANNOTATION_REQUESTED_BY, *DECISIVE])
def test_a_note_is_not_changed_unseen(conditions: list[Object], key: str) -> None:
    noted = made(annotations={key: ""})
    assert asked(conditions, noted, made())
    assert asked(conditions, made(), noted)
    assert asked(conditions, made(annotations={key: "x"}), noted)
    assert not asked(conditions, noted, noted)
