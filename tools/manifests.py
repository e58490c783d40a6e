#!/usr/bin/env python3
"""Write again what follows from the chart, from its schema, and from Laneway's kinds.

- `src/laneway/data/manifests.yaml`: the chart rendered with its defaults by Helm itself, with marks
  for namespace and image, for `laneway manifests`;
- `charts/laneway/crds/`: the definitions of our kinds, and of the kind Setting, which Helm leaves
  alone where the cluster has it;
- the table of values in `charts/laneway/README.md`.

`--check` writes nothing, names what is stale and fails. What Helm says of an object (that Helm
manages it, and from which chart) is left out for kubectl.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from helm_python import Chart

from laneway.api.crds import crds_yaml, setting_crd
from laneway.cli.manifests import IMAGE_MARK, NAMESPACE_MARK

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts" / "laneway"
_IMAGE = {"repository": "laneway.invalid/image", "tag": "placeholder"}
_HELM_ONLY = re.compile(r"^ *(app\.kubernetes\.io/managed-by|helm\.sh/chart): .*\n", re.MULTILINE)
_TABLE = re.compile(r"(?<=<!-- values -->\n).*(?=<!-- /values -->)", re.DOTALL)
_ORDER = (
    "PriorityClass",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Deployment",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)
"""What others need comes first; what could refuse the rest comes last."""


def manifests() -> str:
    """The rendered chart: each object as Helm printed it, in the order to create them in."""
    chart = Chart.load(CHART)
    rendered = chart.render({"image": _IMAGE}, name="laneway", namespace=NAMESPACE_MARK)
    found: list[tuple[int, str, str]] = []
    for template, text in rendered.items():
        if template.endswith(".yaml"):
            for one in re.split(r"^---\n", text, flags=re.MULTILINE):
                if (parsed := yaml.safe_load(one)) is not None:
                    place = _ORDER.index(parsed["kind"])
                    found.append((place, parsed["metadata"]["name"], one.strip("\n")))
    text = "\n---\n".join(one for *_, one in sorted(found)) + "\n"
    text = _HELM_ONLY.sub("", text)
    return text.replace(f"{_IMAGE['repository']}:{_IMAGE['tag']}", IMAGE_MARK)


def _yaml(crd: Any) -> str:
    return str(yaml.safe_dump(crd, sort_keys=False, width=100))


def readme() -> str:
    """The chart's README with the table of its values."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    rows = ["| value | default | |", "|---|---|---|"]
    for name, default, text in _values(schema, values, ""):
        shown = "empty" if default in ("", {}, []) else f"`{json.dumps(default)}`"
        rows.append(f"| `{name}` | {shown} | {text} |")
    table = "\n".join(rows) + "\n"
    return _TABLE.sub(lambda _: table, (CHART / "README.md").read_text())


def _values(schema: Any, values: Any, path: str) -> Iterator[tuple[str, Any, str]]:
    for name, one in schema["properties"].items():
        inner = f"{path}.{name}" if path else name
        if "properties" in one and name != "resources":
            yield from _values(one, values[name], inner)
        else:
            yield inner, values[name], one["description"]


def main() -> int:
    made = {
        ROOT / "src/laneway/data/manifests.yaml": manifests(),
        CHART / "crds/devices.harvesterhci.io.yaml": crds_yaml(),
        CHART / "crds/settings.harvesterhci.io.yaml": _yaml(setting_crd()),
        CHART / "README.md": readme(),
    }
    stale = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is stale: run make manifests")
        return 1 if stale else 0
    for path in stale:
        path.write_text(made[path])
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
