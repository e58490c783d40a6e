"""Rights as an API server tells them: asked once, kept for a moment, not granted when unknown."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from laneway.admission.access import KEPT_SECONDS, AccessReviews
from laneway.admission.metrics import AdmissionMetrics
from laneway.admission.request import Access, Requester
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError
from support.reviewing import SILENT

ANNA = Requester("anna", "1", ("people", "more"), {"scopes": ("a", "b")})
USE = Access("use", "pcideviceclaims", "node1-000001000")


class Server(Client):
    """Answers what a test says, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(SILENT)
        self.asked: list[dict[str, Any]] = []
        self.allows: Any = True
        self.open = asyncio.Event()
        self.open.set()

    async def call(
        self, method: str, path: str, params: Any = None, body: Any = None, *_: Any
    ) -> bytes:
        assert (method, path) == ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")
        self.asked.append(msgspec.json.decode(msgspec.json.encode(body)))
        await self.open.wait()
        if isinstance(self.allows, Exception):
            raise self.allows
        return msgspec.json.encode({"metadata": {}, "status": {"allowed": self.allows}})


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Stage:
    def __init__(self) -> None:
        self.server, self.clock, self.registry = Server(), Clock(), CollectorRegistry()
        self.reviews = AccessReviews(
            self.server, AdmissionMetrics(self.registry), clock=self.clock, limit_seconds=0.05
        )

    async def has(self, access: Access = USE, consumer: Requester = ANNA) -> bool:
        return access in (await self.reviews.granted(consumer, [access])).granted


@pytest.fixture
async def stage() -> Stage:
    return Stage()


async def test_the_whole_requester_is_reported(stage: Stage) -> None:
    assert await stage.has()
    (review,) = stage.server.asked
    assert review["spec"] == {
        "user": "anna",
        "uid": "1",
        "groups": ["people", "more"],
        "extra": {"scopes": ["a", "b"]},
        "resourceAttributes": {
            "group": "devices.harvesterhci.io",
            "resource": "pcideviceclaims",
            "name": "node1-000001000",
            "verb": "use",
        },
    }


async def test_nothing_is_asked_where_no_right_matters(stage: Stage) -> None:
    assert (await stage.reviews.granted(ANNA, [])).granted == frozenset()
    assert stage.server.asked == []


async def test_an_answer_is_kept_for_a_moment(stage: Stage) -> None:
    assert await stage.has()
    stage.server.allows = False
    stage.clock.now += KEPT_SECONDS - 0.1
    assert await stage.has()
    stage.clock.now += 0.2
    assert not await stage.has()
    assert len(stage.server.asked) == 2


@pytest.mark.parametrize(
    "other",
    [
        Requester("bob", "1", ("people", "more"), {"scopes": ("a", "b")}),
        Requester("anna", "2", ("people", "more"), {"scopes": ("a", "b")}),
        Requester("anna", "1", ("people",), {"scopes": ("a", "b")}),
        Requester("anna", "1", ("people", "more"), {"scopes": ("a",)}),
        Requester("anna", "1", ("people", "more")),
    ],
)
async def test_an_answer_is_kept_for_one_requester_only(stage: Stage, other: Requester) -> None:
    assert await stage.has()
    stage.server.allows = False
    assert not await stage.has(consumer=other)


async def test_each_right_is_checked_by_itself(stage: Stage) -> None:
    rights = [USE, Access("administer", USE.resource, USE.name), Access("use", "x", USE.name)]
    assert (await stage.reviews.granted(ANNA, rights)).granted == frozenset(rights)
    assert len(stage.server.asked) == 3


async def test_many_who_wait_ask_once(stage: Stage) -> None:
    stage.server.open.clear()
    waiting = [asyncio.create_task(stage.has()) for _ in range(50)]
    await asyncio.sleep(0)  # They begin.
    waiting[0].cancel()
    stage.server.open.set()
    assert all(await asyncio.gather(*waiting[1:]))
    assert len(stage.server.asked) == 1


async def test_what_cannot_be_asked_is_not_granted_and_reported_and_not_kept(stage: Stage) -> None:
    stage.server.allows = ForbiddenError(403, "Forbidden", "no reviews for you")
    rights = await stage.reviews.granted(ANNA, [USE])
    assert rights.granted == frozenset()
    (warning,) = rights.warnings
    assert "use pcideviceclaims node1-000001000" in warning
    assert "no reviews for you" in warning
    reported = stage.registry.get_sample_value("laneway_admission_access_failures_total")
    assert reported == 1
    stage.server.allows = True
    assert await stage.has()


async def test_a_server_that_does_not_answer_is_not_waited_for(stage: Stage) -> None:
    stage.server.open.clear()
    rights = await stage.reviews.granted(ANNA, [USE])
    assert rights.granted == frozenset()
    assert "did not answer" in rights.warnings[0]
