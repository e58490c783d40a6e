"""Roles that cannot send what they are asked to send refuse to start."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.in_process import command

AGENT = ("agent", "--node", "node1", "--simulate", "a2", "--health-address", "127.0.0.1:0")
MANAGER = ("manager", "--health-address", "127.0.0.1:0")
WEBHOOK = ("webhook", "--tls-cert-file", "/c", "--tls-key-file", "/k")
POOLS_WEBHOOK = ("pools-webhook", *WEBHOOK[1:], "--harvester-kubeconfigs", "/h")
UI = ("ui", "--address", "127.0.0.1:0", "--health-address", "127.0.0.1:0")
ROLES = [AGENT, MANAGER, WEBHOOK, POOLS_WEBHOOK, UI]


@pytest.mark.parametrize("role", ROLES)
def test_an_endpoint_that_is_no_url_is_refused(role: tuple[str, ...]) -> None:
    ended = command(*role, "--otlp-endpoint", "collector")
    assert ended.returncode == 1
    assert "'collector' is not the URL of a receiver of OTLP over HTTP" in ended.stderr


@pytest.mark.parametrize("role", ROLES)
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


def test_all_in_one_process_refuses_it_before_it_makes_a_data_folder(tmp_path: Path) -> None:
    data = tmp_path / "data"
    arguments = ("--no-local", "--simulate", "a2", "--data-dir", str(data))
    ended = command("up", *arguments, "--otlp-endpoint", "collector")
    assert ended.returncode == 1
    assert "'collector' is not the URL of a receiver of OTLP over HTTP" in ended.stderr
    assert not data.exists()
