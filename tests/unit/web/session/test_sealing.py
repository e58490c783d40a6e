"""Sealed text opens in the process that made it, for its purpose, and for as long as it may."""

from __future__ import annotations

import pytest

from laneway.web.session.sealing import KEPT_SECONDS, ROTATE_SECONDS, Keyring


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def test_what_is_sealed_can_be_opened_and_not_read() -> None:
    keyring = Keyring()
    sealed = keyring.seal("session", "an-id")
    assert "an-id" not in sealed
    assert keyring.open("session", sealed) == "an-id"
    assert keyring.open("oidc", sealed) is None
    assert Keyring().open("session", sealed) is None


@pytest.mark.parametrize("text", ["", "x", "ö", "A" * 5000, "gAAAAA" + "A" * 100])
def test_other_text_opens_to_nothing(text: str) -> None:
    assert Keyring().open("session", text) is None


def test_changed_text_opens_to_nothing() -> None:
    keyring = Keyring()
    sealed = keyring.seal("session", "an-id")
    assert keyring.open("session", sealed[:-8] + "AAAAAAA=") is None


def test_keys_are_replaced_and_open_what_they_sealed_for_a_day() -> None:
    clock = Clock()
    keyring = Keyring(clock)
    sealed = keyring.seal("session", "an-id")
    clock.now += ROTATE_SECONDS
    keyring.seal("session", "another")
    clock.now += KEPT_SECONDS - ROTATE_SECONDS
    assert keyring.open("session", sealed) == "an-id"
    assert keyring.open("session", sealed, seconds=600) is None
    clock.now += 1
    assert keyring.open("session", sealed) is None


def test_old_keys_are_forgotten() -> None:
    clock = Clock()
    keyring = Keyring(clock)
    for _ in range(100):
        keyring.seal("session", "an-id")
        clock.now += ROTATE_SECONDS
    assert len(keyring._keys) <= KEPT_SECONDS / ROTATE_SECONDS + 2
