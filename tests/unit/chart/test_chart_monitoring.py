"""Alerts and dashboard query metrics that exist, with labels that they have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from laneway.admission.machine_pools.metrics import PoolMetrics
from laneway.admission.metrics import AdmissionMetrics
from laneway.controllers.cluster.metrics import ManagerMetrics
from laneway.controllers.measuring.metrics import PER_GPU, PER_VGPU
from laneway.controllers.metrics import _DEVICES, MetricFamilies
from laneway.vsphere.fleet.metrics import FleetMetrics
from support.chart import FOLDER, MANAGEMENT, NAMESPACE, ROOT, find, render

ALERTS = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
POOL_ALERTS = yaml.safe_load((FOLDER / "alerts-machine-pools.yaml").read_text())
RULES = [
    rule
    for alerts in (ALERTS, POOL_ALERTS)
    for group in alerts["groups"]
    for rule in group["rules"]
]
DASHBOARD = json.loads((FOLDER / "dashboards" / "laneway.json").read_text())
MONITORING = {
    "metrics": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "x"}},
        "rules": {"enabled": True},
        "dashboard": {"enabled": True},
    }
}
METRIC = re.compile(r"\blaneway_\w+(?:\{([^}]*)})?")
LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
ROW = re.compile(r"^\| `(laneway_\w+)` \| (\w+) \|", re.MULTILINE)
SUFFIX = re.compile(r"_(?:total|bucket|count|sum|created)$")


@cache
def known() -> dict[str, set[str]]:
    """Every metric of the code, without suffix, with its labels."""
    registry = CollectorRegistry()
    ManagerMetrics(registry)
    AdmissionMetrics(registry)
    PoolMetrics(registry)
    FleetMetrics(registry)
    found: dict[str, set[str]] = {}
    for one in (registry, MetricFamilies().registry):
        for collector in one._collector_to_names:
            if hasattr(collector, "_labelnames"):
                found[SUFFIX.sub("", collector._name)] = set(collector._labelnames)
    for table in (_DEVICES, PER_GPU, PER_VGPU):
        found |= {name: {"node", *labels} for name, (_, labels, _) in table.items()}
    # These are made when they are requested.
    made: dict[str, set[str]] = {
        "laneway_device_plugin_devices": {"node", "resource", "state"},
        "laneway_device_plugin_registrations": {"node", "resource"},
        "laneway_device_plugin_allocate_failures": {"node", "resource"},
        "laneway_gpu_ecc_errors": {"node", "gpu", "severity", "counter"},
        "laneway_gpu_faults": {"node", "gpu", "xid"},
        "laneway_gpu_query_failures": {"node", "query"},
        "laneway_gpu_query_success": {"node", "query"},
        "laneway_gpu_xids": {"node", "gpu", "xid"},
        "laneway_ledger_devices": {"node", "resource", "state"},
        "laneway_ledger_short": {"resource", "phase"},
        "laneway_ledger_build_seconds": set(),
        "laneway_virtual_machines_unchecked": set(),
        "laneway_vsphere_connected": {"vcenter"},
        "laneway_vsphere_inventory_age_seconds": {"vcenter"},
        "laneway_vsphere_reservations": {"vcenter", "ready"},
    }
    folders = (ROOT / "src/laneway" / name for name in ("controllers", "vsphere"))
    code = "".join(path.read_text() for folder in folders for path in folder.rglob("*.py"))
    assert all(f'"{name}"' in code for name in made)
    return found | made


def expressions() -> Iterator[tuple[str, str]]:
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if "definition" in variable:
            yield variable["name"], variable["definition"]


@pytest.mark.parametrize(("title", "expression"), list(expressions()))
def test_every_queried_metric_exists(title: str, expression: str) -> None:
    metrics = known()
    for match in METRIC.finditer(expression):
        name = SUFFIX.sub("", match[0].partition("{")[0])
        assert name in metrics, title
        asked = set(LABEL.findall(match[1] or ""))
        assert asked <= metrics[name] | {"job", "le"}, title


@cache
def exported() -> frozenset[str]:
    """Every name that Prometheus gets, by the page that is made from the code."""
    found = set()
    for name, kind in ROW.findall((ROOT / "docs/reference/metrics.md").read_text()):
        endings = ("_bucket", "_count", "_sum") if kind == "histogram" else ("",)
        found |= {f"{name}{ending}" for ending in endings}
    return frozenset(found)


@pytest.mark.parametrize(("title", "expression"), list(expressions()))
def test_every_queried_name_is_the_whole_one(title: str, expression: str) -> None:
    asked = {match[0].partition("{")[0] for match in METRIC.finditer(expression)}
    assert asked <= exported(), title


PAGES = [one for one in (ROOT / "docs/how-to").glob("*.md") if one.name != "terraform.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_every_metric_that_a_page_names_exists(page: Path) -> None:
    """One that ends with _ stands for all that begin so."""
    named = {match[0].partition("{")[0] for match in METRIC.finditer(page.read_text())}
    begun = {name for name in named if name.endswith("_")}
    assert named - begun <= exported()
    assert all(any(one.startswith(name) for one in exported()) for name in begun)


def grouped() -> Iterator[tuple[str, str, str]]:
    """Labels by which something is summed, and those that a text names."""
    for title, expression in expressions():
        for labels in re.findall(r"\bby \(([^)]*)\)", expression):
            yield title, expression, labels


@pytest.mark.parametrize(("title", "expression", "labels"), list(grouped()))
def test_what_is_summed_has_the_labels(title: str, expression: str, labels: str) -> None:
    metrics = known()
    (name,) = {SUFFIX.sub("", m[0].partition("{")[0]) for m in METRIC.finditer(expression)}

    assert {label.strip() for label in labels.split(",")} <= metrics[name] | {"le"}, title


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_wrong_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["alert"].startswith("Laneway")
    assert rule["labels"]["severity"] in ("info", "warning", "critical")
    assert rule["annotations"]["summary"].endswith(".")
    assert len(rule["annotations"]["description"]) > 60


def test_the_rules_reach_prometheus_as_they_are() -> None:
    rules = find(render(MONITORING), "PrometheusRule", "laneway")

    assert rules["spec"] == ALERTS
    alone = find(render(MANAGEMENT), "PrometheusRule", "laneway")
    assert alone["spec"] == POOL_ALERTS


def test_the_dashboard_reaches_grafana_as_it_is() -> None:
    config = find(render(MONITORING), "ConfigMap", "laneway-dashboard")

    assert json.loads(config["data"]["laneway.json"]) == DASHBOARD
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert config["metadata"]["namespace"] == NAMESPACE


def test_no_two_panels_are_in_one_place() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_the_monitor_finds_the_ports_for_metrics_and_the_job_that_alerts_name() -> None:
    pools = {"machinePools": {"webhook": {"enabled": True}}}
    objects = render({**MONITORING, **pools})
    monitor = find(objects, "ServiceMonitor", "laneway")
    chosen = monitor["spec"]["selector"]["matchLabels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    services = {
        o["metadata"]["name"]
        for o in objects
        if o["kind"] == "Service"
        and chosen <= o["metadata"]["labels"].items()
        and any(port["name"] == endpoint["port"] for port in o["spec"]["ports"])
    }
    jobs = {job for _, text in expressions() for job in re.findall(r'job="([^"]+)"', text)}

    assert monitor["metadata"]["labels"]["release"] == "x"
    served = ("agent", "manager", "webhook", "pools-webhook")
    assert services == {f"laneway-{one}-metrics" for one in served}
    assert jobs <= services
