"""Roles that cannot send what they are asked to send refuse to start."""

from __future__ import annotations

import sys

import pytest

from support.in_process import command

AGENT = ("agent", "--node", "node1", "--simulate", "a2", "--health-address", "127.0.0.1:0")
MANAGER = ("manager", "--health-address", "127.0.0.1:0")
WEBHOOK = ("webhook", "--tls-cert-file", "/c", "--tls-key-file", "/k")


@pytest.mark.parametrize("role", [AGENT, MANAGER, WEBHOOK])
def test_an_endpoint_that_is_no_url_is_refused(role: tuple[str, ...]) -> None:
    ended = command(*role, "--otlp-endpoint", "collector")
    assert ended.returncode == 1
    assert "'collector' is not the URL of a receiver of OTLP over HTTP" in ended.stderr


@pytest.mark.parametrize("role", [AGENT, MANAGER, WEBHOOK])
def test_the_standard_variable_switches_traces_on_and_the_extra_is_asked_for(
    role: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "laneway.roles.telemetry.otlp", raising=False)
    for name in [one for one in sys.modules if one.split(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    ended = command(*role, OTEL_EXPORTER_OTLP_ENDPOINT="http://collector:4318")
    assert ended.returncode == 1
    assert "pip install 'laneway[otel]'" in ended.stderr
