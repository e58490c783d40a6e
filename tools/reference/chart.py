"""The page of the chart's values, from its schema and its defaults."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from reference.markdown import page, table

CHART = Path(__file__).parents[2] / "charts/laneway"

_INTRODUCTION = """
The values of `charts/laneway`. A value that the chart does not have, or that has another type, is
an error of `helm install`. [Install](../how-to/install.md) says how to set them.
"""


def chart_values() -> str:
    """All values by the part of the chart that they are of."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    sections: list[str] = []
    alone = []
    for name, one in schema["properties"].items():
        rows = list(values({"properties": {name: one}}, defaults))
        if "properties" in one:
            text = one["description"]
            sections += [f"## {name}", text, table(("value", "default", "meaning"), rows)]
        else:
            alone += rows
    return page(
        "Chart values", _INTRODUCTION, table(("value", "default", "meaning"), alone), *sections
    )


def values(schema: Any, defaults: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Each value with its default and what it means."""
    for name, one in schema["properties"].items():
        inner = f"{path}.{name}" if path else name
        if "properties" in one and name != "resources":
            yield from values(one, defaults[name], inner)
            continue
        default = defaults[name]
        shown = "empty" if default in ("", {}, []) else f"`{json.dumps(default)}`"
        allowed = ", ".join(f"`{value}`" for value in one.get("enum", ()))
        named = all(f"`{value}`" in one["description"] for value in one.get("enum", ()))
        text = one["description"] + ("" if named else f" One of {allowed}.")
        yield f"`{inner}`", shown, text
