"""The chart is sound, says what its values are, and keeps nonsense out."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from support.chart import (
    FOLDER,
    MANAGEMENT,
    ROOT,
    TOOLKIT,
    VALUES,
    helm,
    names_of,
    render,
    templates,
)
from support.examples import first

INFORMATION = 1
SCHEMA = json.loads((FOLDER / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((FOLDER / "values.yaml").read_text())


def test_helm_finds_nothing_to_warn_of() -> None:
    found = helm().lint(FOLDER, strict=True)

    assert found["errors"] == []
    assert [m for m in found["messages"] if m["severity"] > INFORMATION] == []


def test_chart_and_program_have_one_version() -> None:
    chart = yaml.safe_load((FOLDER / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert chart["version"] == chart["appVersion"] == project["version"]


def test_what_follows_from_the_chart_is_up_to_date() -> None:
    helm()
    found = subprocess.run(
        [sys.executable, "tools/manifests.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (found.stdout, found.returncode) == ("", 0), found.stderr


@pytest.mark.parametrize("name", first("2024", "null", "on", "1e3"))
@pytest.mark.parametrize("values", VALUES)
def test_names_that_yaml_takes_for_something_else_stay_names(values: str, name: str) -> None:
    objects = render(VALUES[values], name=name, namespace=name)

    assert {type(one) for one in names_of(objects)} == {str}
    # In CLI arguments, and where others look for the release.
    assert f"--namespace={name}" in str(objects)
    for _, template in templates(objects):
        assert template["metadata"]["labels"]["app.kubernetes.io/instance"] == name


def test_namespaces_among_the_values_stay_names() -> None:
    dashboard = {"enabled": True, "namespace": "on"}
    values = {"agent": {"driverNamespace": "2024"}, "metrics": {"dashboard": dashboard}}
    objects = render(values)

    assert {type(one) for one in names_of(objects)} == {str}
    assert {"2024", "on"} <= set(names_of(objects))


def described(schema: Any, values: Any, path: str = "") -> Iterator[tuple[str, str, bool]]:
    """Every value by its path, with its description and whether it has a default."""
    for name, one in schema["properties"].items():
        inner = f"{path}.{name}" if path else name
        there = isinstance(values, dict) and name in values
        yield inner, one.get("description", ""), there
        if "properties" in one:
            yield from described(one, values[name] if there else {}, inner)


def known(values: Any, schema: Any, path: str = "") -> Iterator[tuple[str, bool]]:
    """Every value by its path, and whether the schema knows it."""
    for name, value in values.items():
        inner = f"{path}.{name}" if path else name
        yield inner, name in schema["properties"]
        if "properties" in schema["properties"].get(name, {}):
            yield from known(value, schema["properties"][name], inner)


def test_every_value_is_described_and_has_a_default() -> None:
    found = list(described(SCHEMA, DEFAULTS))

    assert [path for path, text, _ in found if not text] == []
    assert [path for path, _, there in found if not there] == []


def test_every_default_is_in_the_schema() -> None:
    assert [path for path, there in known(DEFAULTS, SCHEMA) if not there] == []


def test_nothing_unknown_is_taken_anywhere() -> None:
    open_ended = [
        path
        for path, one in _objects(SCHEMA)
        if "properties" in one and one.get("additionalProperties") is not False
    ]

    assert open_ended == []


def _objects(schema: Any, path: str = "values") -> Iterator[tuple[str, Any]]:
    yield path, schema
    for name, one in schema.get("properties", {}).items():
        yield from _objects(one, f"{path}.{name}")


def leaves(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, one in schema["properties"].items():
        if "properties" in one and name != "resources":
            yield from leaves(one, (*path, name))
        else:
            yield (*path, name)


@pytest.mark.parametrize("path", list(leaves(SCHEMA)), ids=".".join)
def test_every_value_is_tried(path: tuple[str, ...]) -> None:
    def says(values: Any) -> bool:
        for name in path:
            if not isinstance(values, dict) or name not in values:
                return False
            values = values[name]
        return True

    assert any(says(values) for values in (*VALUES.values(), MANAGEMENT))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"agnet": {}}, "agnet"),
        ({"agent": {"replicas": 2}}, "replicas"),
        ({"agent": {"driver": "cloud"}}, "'pod', 'node'"),
        ({"agent": {"stateDir": "relative"}}, "/agent/stateDir"),
        ({"agent": {"kubeletDir": "/a/../b"}}, "/agent/kubeletDir"),
        ({"agent": {"kubeletDir": "/a b"}}, "/agent/kubeletDir"),
        ({"agent": {"dra": "yes"}}, "/agent/dra"),
        ({"manager": {"replicas": 0}}, "/manager/replicas"),
        (
            {"manager": {"vsphere": {"secretNamespaces": "all"}}},
            "/manager/vsphere/secretNamespaces",
        ),
        ({"manager": {"vsphere": {"secretNamespaces": ["*"]}}}, "secretNamespaces/0"),
        ({"manager": {"vsphere": {"secretNamespaces": ["a", "a"]}}}, "secretNamespaces"),
        ({"manager": {"vsphere": {"vectorAddImage": "a b"}}}, "/manager/vsphere/vectorAddImage"),
        ({"manager": {"kubevirtMachines": {"capacity": "yes"}}}, "/manager/kubevirtMachines"),
        ({"webhook": {"kubevirtMachines": {"failurePolicy": "Warn"}}}, "'Ignore', 'Fail'"),
        ({"webhook": {"certificates": "letsencrypt"}}, "'own', 'cert-manager', 'none'"),
        ({"webhook": {"virtualMachines": {"failurePolicy": "Warn"}}}, "'Ignore', 'Fail'"),
        ({"ui": {"enabled": True, "ingress": {"enabled": True}}}, "ui.ingress.host is needed"),
        (
            {"ui": {"enabled": True, "oidc": {"issuer": "https://login.example"}}},
            "ui.oidc.clientId is needed",
        ),
        ({"driverToolkit": {"enabled": True}}, "driverToolkit.location is needed"),
        ({"driverToolkit": {**TOOLKIT, "sha256": ""}}, "driverToolkit.sha256 is needed"),
        ({"driverToolkit": {**TOOLKIT, "version": ""}}, "driverToolkit.version is needed"),
        ({"driverToolkit": {**TOOLKIT, "sha256": "0A" * 32}}, "/driverToolkit/sha256"),
        ({"driverToolkit": {**TOOLKIT, "version": "latest"}}, "/driverToolkit/version"),
        ({"driverToolkit": {**TOOLKIT, "location": "ftp://a/b"}}, "must be a URL"),
        ({"driverToolkit": {**TOOLKIT, "location": "a.run"}}, "must be a URL"),
        ({"driverToolkit": {**TOOLKIT, "location": "a b"}}, "/driverToolkit/location"),
        ({"driverToolkit": {**TOOLKIT, "pvc": "drivers"}}, "must be the name of a file"),
        ({"driverToolkit": {**TOOLKIT, "pvc": "a", "folder": "/b"}}, "exclude each other"),
        ({"driverToolkit": {**TOOLKIT, "folder": "/a/../b"}}, "/driverToolkit/folder"),
        ({"driverToolkit": {**TOOLKIT, "proxy": "proxy:3128"}}, "/driverToolkit/proxy"),
        ({"image": {"digest": "latest"}}, "/image/digest"),
        ({"image": {"tag": "a b"}}, "/image/tag"),
        ({"image": {"repository": "Upper:tag@x"}}, "/image/repository"),
        ({"logLevel": "loud"}, "/logLevel"),
        ({"metrics": {"dashboard": {"namespace": "No_Name"}}}, "/metrics/dashboard/namespace"),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(helm().HelmError) as refused:
        render(values)

    assert words in str(refused.value)
