"""A simulator and a plain client of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyVmomi import vim

from support.vcenter import Simulator
from support.vcenter_client import Client

LogIn = Callable[..., vim.ServiceInstance]


@pytest.fixture
def client(vcenter: Simulator, log_in: LogIn) -> Client:
    return Client(log_in(vcenter))


@pytest.fixture
def begin(start_vcenter: Callable[..., Simulator], log_in: LogIn) -> Callable[..., Any]:
    """A simulator as requested, and a client of it."""

    def start(*inventory: Any, **more: Any) -> tuple[Simulator, Client]:
        simulator = start_vcenter(*inventory, **more)
        return simulator, Client(log_in(simulator))

    return start
