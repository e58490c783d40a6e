"""`laneway manifests`: definitions first, then all else, in the namespace and image requested."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from laneway.api.crds import crds
from laneway.cli.commands.install import manifests
from support.chart import names_of


def printed(*arguments: str) -> Result:
    return CliRunner().invoke(manifests, list(arguments))


@cache
def objects(*arguments: str) -> list[Any]:
    result = printed(*arguments)
    assert result.exit_code == 0, result.output
    return list(yaml.load_all(result.output, Loader=yaml.CSafeLoader))


def test_definitions_come_first() -> None:
    found = objects()

    assert found[: len(crds())] == crds()
    assert "CustomResourceDefinition" not in {one["kind"] for one in found[len(crds()) :]}


def test_removing_laneway_can_keep_its_objects() -> None:
    assert objects("--no-crds") == objects()[len(crds()) :]


def test_a_cluster_before_policies_is_given_all_else() -> None:
    assert objects("--no-policies") == [
        one for one in objects() if not one["kind"].startswith("ValidatingAdmissionPolicy")
    ]
    assert len(objects("--no-policies")) < len(objects())


def test_what_could_refuse_the_rest_comes_last() -> None:
    kinds = [one["kind"] for one in objects()]

    assert kinds[-1].endswith("WebhookConfiguration")
    assert kinds.index("ServiceAccount") < kinds.index("ClusterRoleBinding")
    assert kinds.index("ClusterRoleBinding") < kinds.index("DaemonSet")


def test_all_is_in_the_namespace_and_of_the_image_that_are_requested() -> None:
    image = f"r.example:5000/a/laneway:2@sha256:{'0a' * 32}"
    found = objects("--namespace", "devices", "--image", image)

    namespaces = {one["metadata"].get("namespace") for one in found} - {None}
    images = {
        container["image"]
        for one in found
        if one["kind"] in ("DaemonSet", "Deployment")
        for container in one["spec"]["template"]["spec"]["containers"]
    }
    assert namespaces <= {"devices", "default"}
    assert images == {image}
    assert "__" not in printed("--namespace", "devices").output
    assert "harvester-system" not in str(found)


@pytest.mark.parametrize("namespace", ["2024", "null", "on"])
def test_a_namespace_that_yaml_takes_for_something_else_stays_a_name(namespace: str) -> None:
    found = list(names_of(objects("--no-crds", "--namespace", namespace)))

    assert namespace in found
    assert {type(one) for one in found} == {str}


def test_helm_is_not_said_to_manage_it() -> None:
    assert "helm.sh" not in printed().output
    assert "managed-by" not in printed().output


@pytest.mark.parametrize("namespace", ["", "Upper", "a b", "x" * 64, "a\nkind: Secret", "-a"])
def test_what_is_no_namespace_is_refused(namespace: str) -> None:
    result = printed("--namespace", namespace)

    assert result.exit_code == 1
    assert "cannot be a namespace" in result.output


@pytest.mark.parametrize("image", ["a b", "a:b:c:d e", 'x" # y', "a\nb", "Upper", "a@sha256:1"])
def test_what_is_no_image_is_refused(image: str) -> None:
    result = printed("--image", image)

    assert result.exit_code == 1
    assert "cannot be an image" in result.output
