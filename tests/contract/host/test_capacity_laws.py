"""Whatever was made and removed before: what is said to fit still is what the driver takes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.capacity import Story, as_many_fit, offered, order_works, sizes
from support.examples import many

EXAMPLES = settings(
    max_examples=many(20),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.parametrize("mixed", [False, True], ids=["same-size", "mixed-size"])
async def test_as_many_fit_whatever_was_made_before(gpu: Any, mixed: bool) -> None:
    @given(story=st.lists(st.tuples(st.booleans(), st.integers(0, 63)), max_size=8))
    @EXAMPLES
    def tell(story: Story) -> None:
        as_many_fit(gpu, story, mixed=mixed)

    async with sizes(gpu, mixed=mixed):
        tell()


async def test_every_order_that_is_said_to_work_works(gpu: Any) -> None:
    async with sizes(gpu, mixed=True):
        names = offered(gpu)

        @given(wanted=st.lists(st.sampled_from(names), min_size=1, max_size=8))
        @EXAMPLES
        def tell(wanted: list[str]) -> None:
            order_works(gpu, wanted)

        tell()
