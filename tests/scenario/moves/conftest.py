"""As in all scenarios, and the webhook reviews every write of every move."""

from __future__ import annotations

import pytest


@pytest.fixture
def reviewed() -> bool:
    return True
