#!/usr/bin/env python3
"""Have Prometheus judge the chart's alerts: as a file, as the chart renders them, and at work.

Needs promtool (Debian's package prometheus). What the chart puts into its PrometheusRule is what is
checked, so nothing that Helm does to it is missed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from helm_python import Chart

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "charts/laneway" / f"{name}.yaml" for name in ("alerts", "alerts-machine-pools")]
TESTS = Path(__file__).parent / "alerts_test.yaml"


def rendered() -> str:
    """The rules of the PrometheusRule, as a file of Prometheus."""
    pools = {"webhook": {"enabled": True}}
    values = {"machinePools": pools, "metrics": {"rules": {"enabled": True}}}
    texts = Chart.load(ROOT / "charts" / "laneway").render(values, name="laneway", namespace="x")
    objects = yaml.safe_load_all(texts["laneway/templates/monitoring.yaml"])
    (rule,) = (one for one in objects if one and one["kind"] == "PrometheusRule")
    return yaml.safe_dump(rule["spec"], sort_keys=False)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        rules, tests = Path(folder, "alerts.yaml"), Path(folder, "tests.yaml")
        rules.write_text(rendered())
        tests.write_text(TESTS.read_text())
        for command in (
            ["check", "rules", *map(str, FILES)],
            ["check", "rules", str(rules)],
            ["test", "rules", str(tests)],
        ):
            if subprocess.run(["promtool", *command], check=False).returncode != 0:
                return 1
    untested = {
        rule["alert"]
        for file in FILES
        for group in yaml.safe_load(file.read_text())["groups"]
        for rule in group["rules"]
    } - {
        one["alertname"]
        for test in yaml.safe_load(TESTS.read_text())["tests"]
        for one in test["alert_rule_test"]
        if one["exp_alerts"]
    }
    if untested:
        print(f"alerts that no test has seen firing: {', '.join(sorted(untested))}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
