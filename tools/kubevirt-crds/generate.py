"""Make the definitions of KubeVirt's kinds that `laneway up --simulate` installs.

Reads the unchanged copies in tests/data/crds and writes one compressed file. Left out is what a
simulation does not need and every start would pay for: the older version v1alpha3, which has the
same fields, and the descriptions of the fields, three quarters of the text.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from shipping import ROOT, copied, ship, without_descriptions

KINDS = ("kubevirts", "virtualmachineinstances", "virtualmachines")
TARGET = ROOT / "src/laneway/simcluster/kubevirt/crds.json.xz"


def definition(kind: str) -> dict[str, Any]:
    """One CustomResourceDefinition, as it is shipped."""
    crd = copied(f"{kind}.kubevirt.io")
    crd["spec"]["versions"] = [
        {**version, "schema": without_descriptions(version["schema"])}
        for version in crd["spec"]["versions"]
        if version["name"] == "v1"
    ]
    return crd


if __name__ == "__main__":
    ship([definition(kind) for kind in KINDS], TARGET)
