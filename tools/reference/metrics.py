"""The page of metrics and alerts.

Metrics are read from the source that declares them: what is counted only when it is scraped needs a
node, a vCenter or a KubeVirt to exist in a registry. A name `laneway_…` in the source that is not
understood as a metric is an error, and so is a metric of no part, so none is left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from reference.markdown import block, code, page, table

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/laneway"
ALERTS = [ROOT / "charts/laneway" / f"{name}.yaml" for name in ("alerts", "alerts-machine-pools")]

_INTRODUCTION = """
Every part of Laneway serves `/metrics` for Prometheus beside `/healthz` and `/readyz`: the agent
on port 9640, the manager on 9641, the webhook on 9642, the web interface on 9643, the webhook for
machine pools on 9644. `laneway up` serves those of all its parts at the address that it prints.
[Monitor Laneway](../how-to/monitor.md) says how to have them collected.
"""
_ALERTS = """
`metrics.rules.enabled` of the chart installs these; without the Prometheus operator, load
`charts/laneway/alerts.yaml` and `charts/laneway/alerts-machine-pools.yaml` as they are.
"""
_TYPES = {
    "Counter": "counter",
    "Gauge": "gauge",
    "Histogram": "histogram",
    "CounterMetricFamily": "counter",
    "GaugeMetricFamily": "gauge",
}
_NAME = re.compile(r"laneway_[a-z_]+")
_PARTS = {
    "Agent": ("controllers/metrics.py", "controllers/measuring/"),
    "Every part that sends traces or the audit record": ("roles/telemetry/",),
    "Manager": ("controllers/cluster/", "controllers/ledger/"),
    "Webhook": ("admission/metrics.py",),
    "Web interface": ("web/metrics.py",),
    "Webhook for machine pools": ("admission/machine_pools/",),
    "vSphere (of the manager)": ("vsphere/",),
}


class Metric(NamedTuple):
    name: str
    type: str
    labels: tuple[str, ...]
    help: str


class UnreadableError(Exception):
    """A metric that is declared in no way that is known here."""


def metrics() -> str:
    """All metrics by the part that serves them, then the alerts."""
    sections = []
    left = {path: str(path.relative_to(SOURCE)) for path in sorted(SOURCE.rglob("*.py"))}
    for part, places in _PARTS.items():
        own = [path for path, name in left.items() if name.startswith(places)]
        found = sorted(metric for path in own for metric in declared(path))
        for path in own:
            del left[path]
        rows = ((code(one.name), one.type, ", ".join(one.labels), one.help) for one in found)
        sections += [f"## {part}", table(("metric", "type", "labels", "counts"), rows)]
    for path in left:
        text = path.read_text()
        if '"laneway_' in text and any(
            one.name.startswith("laneway_") for one in _called(ast.parse(text))
        ):
            raise UnreadableError(f"{path}: the metrics of which part are these?")
    return page("Metrics and alerts", _INTRODUCTION, *sections, "## Alerts", _alerts())


def declared(path: Path) -> Iterator[Metric]:
    """The metrics that a module declares: by a call, or as a row `name: (help, labels, …)`."""
    text = path.read_text()
    if '"laneway_' not in text:
        return
    tree = ast.parse(text)
    found = [*_called(tree), *_rows(tree)]
    named = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _NAME.fullmatch(node.value)
    }
    if (
        missing := named
        - {one.name.removesuffix("_total") for one in found}
        - {one.name for one in found}
    ):
        raise UnreadableError(f"{path}: how are {', '.join(sorted(missing))} declared?")
    yield from found


def _called(tree: ast.AST) -> Iterator[Metric]:
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        kind = _TYPES.get(node.func.id, "")
        name, text = (_text(one) for one in [*node.args, None, None][:2])
        if not (kind and name and text):
            continue
        labels = [*node.args[2:3], *(one.value for one in node.keywords if one.arg == "labels")]
        if node.func.id == "CounterMetricFamily":
            name += "_total"
        yield Metric(name, kind, _texts(labels[0]) if labels else (), text)


def _rows(tree: ast.AST) -> Iterator[Metric]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                name = _text(key)
                if name and _NAME.fullmatch(name) and isinstance(value, ast.Tuple):
                    text = _text(value.elts[0]) or ""
                    yield Metric(name, "gauge", ("node", *_texts(value.elts[1])), text)


def _text(node: ast.AST | None) -> str | None:
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value if is_text and isinstance(node, ast.Constant) else None


def _texts(node: ast.AST) -> tuple[str, ...]:
    if not isinstance(node, ast.List | ast.Tuple):
        return ()
    return tuple(text for one in node.elts if (text := _text(one)) is not None)


def _alerts() -> str:
    groups = [group for file in ALERTS for group in yaml.safe_load(file.read_text())["groups"]]
    parts = [_ALERTS.strip()]
    for rule in (rule for group in groups for rule in group["rules"]):
        texts = rule["annotations"]
        lasting = f", after {rule['for']}" if "for" in rule else ""
        parts += [
            f"### {rule['alert']}",
            f"{texts['summary']} Severity {rule['labels']['severity']}{lasting}.",
            block([rule["expr"]], "promql"),
            texts["description"],
        ]
    return "\n\n".join(parts)
