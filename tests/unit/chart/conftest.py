"""What the chart makes of each set of values."""

from __future__ import annotations

import pytest

from support.chart import VALUES, Object, render

_RENDERED: dict[str, list[Object]] = {}


@pytest.fixture(params=VALUES)
def rendered(request: pytest.FixtureRequest) -> list[Object]:
    """All objects for one set of values; not to be changed."""
    if request.param not in _RENDERED:
        _RENDERED[request.param] = render(VALUES[request.param])
    return _RENDERED[request.param]
