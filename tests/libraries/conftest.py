"""Kubernetes' own libraries, asked by the program that LANEWAY_CHECKER names."""

from __future__ import annotations

from typing import Any

import pytest

from support import checker as support


@pytest.fixture(scope="session")
def checker() -> Any:
    found = support.checker()
    assert found is not None, "LANEWAY_CHECKER names the program: make test-libraries sets it"
    return found
