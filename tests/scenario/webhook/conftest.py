"""A webhook that listens, for tests that only ask."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from support.reviewing import WebhookInThread, known_world


@pytest.fixture(scope="module")
def webhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookInThread]:
    running = WebhookInThread(tmp_path_factory.mktemp("pki"), known_world())
    running.start()
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def nothing_fails(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Neither the server of HTTP nor the event loop has anything to complain of."""
    yield
    loggers = ("aiohttp", "asyncio")
    failed = [one for one in caplog.records if one.name.split(".")[0] in loggers]
    assert not [one.getMessage() for one in failed if one.levelno >= logging.WARNING]
