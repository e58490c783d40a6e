"""While a server refuses everything, roles ask seldom, and never before it says."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from support.examples import first

MOST_IN_TWO_MINUTES = 15
"""The back-off of informers and work queues begins below a second, and doubles."""


@pytest.mark.parametrize("role", first("agent", "manager"))
async def test_an_outage_is_waited_out_with_few_requests(site: Any, role: str) -> None:
    line = getattr(site, role)
    line.refuse(503)
    before = len(line.asked)
    await site.change()
    await site.time.passes(10)
    line.cut()
    await site.time.passes(110)

    asked = Counter(one.what for one in line.asked[before:] if one.resource != "leases")
    assert len(asked) > 5
    assert max(asked.values()) <= MOST_IN_TWO_MINUTES, asked.most_common(5)
    line.heal()
    await site.time.passes(35)  # The longest pause.
    await site.reached()


@pytest.mark.slow
@pytest.mark.parametrize("role", first("agent", "manager"))
async def test_a_server_that_says_when_to_come_back_is_not_asked_before(
    site: Any, role: str
) -> None:
    line = getattr(site, role)
    line.refuse(429, Retry_After="250", X_Kubernetes_PF_PriorityLevel_UID="1")
    await site.change()
    await site.time.passes(10)  # Until everything has been written that there is to write,
    line.cut()
    await site.time.passes(10)  # and until everything has been asked once.
    before = len(line.asked)
    await site.time.passes(200)
    assert [one.what for one in line.asked[before:]] == []

    line.heal()
    await site.time.passes(60)
    await site.reached()
