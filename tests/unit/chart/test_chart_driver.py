"""The driver toolkit: agents of Laneway and of Harvester find its pods, and it has no rights."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.cli.commands.options import DRIVER_FOLDER, STATE_FOLDER
from laneway.controllers.rollout.drivers import ANNOTATION, DAEMON_SET, OURS
from laneway.core.driver_toolkit.settings import Settings, problems
from laneway.core.keys import LABEL_DRIVER_NEEDED
from laneway.host.executors.pod import LABEL, VALUE
from laneway.toolkit.places import Places
from support.chart import TOOLKIT, VALUES, find, render

SOURCES = [name for name, values in VALUES.items() if "driverToolkit" in values]


def daemon_set(**values: Any) -> Any:
    return find(
        render({"driverToolkit": {**TOOLKIT, **values}}), "DaemonSet", "nvidia-driver-runtime"
    )


def container(found: Any) -> Any:
    (one,) = found["spec"]["template"]["spec"]["containers"]
    return one


def env(found: Any) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container(found)["env"]}


def mounts(found: Any) -> dict[str, Any]:
    """What each volume is, by where the container sees it."""
    volumes = {one["name"]: one for one in found["spec"]["template"]["spec"]["volumes"]}
    return {one["mountPath"]: volumes[one["name"]] for one in container(found)["volumeMounts"]}


def test_there_is_none_unless_it_is_wanted() -> None:
    assert "nvidia-driver-runtime" not in str(render())
    assert "laneway-driver-toolkit" not in str(render())


def test_agents_find_the_driver() -> None:
    found = daemon_set()
    template = found["spec"]["template"]

    assert template["metadata"]["labels"][LABEL] == VALUE
    assert container(found)["securityContext"]["privileged"] is True
    assert container(found)["readinessProbe"]["exec"]["command"][1:] == ["driver-toolkit", "ready"]
    assert template["spec"]["nodeSelector"] == {LABEL_DRIVER_NEEDED: "true"}


def test_no_node_changes_its_driver_unasked() -> None:
    assert daemon_set()["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_its_account_has_no_right_and_no_token() -> None:
    objects = render({"driverToolkit": TOOLKIT})
    spec = daemon_set()["spec"]["template"]["spec"]

    assert spec["automountServiceAccountToken"] is False
    bound = [o for o in objects if o["kind"].endswith("RoleBinding")]
    assert spec["serviceAccountName"] not in str(bound)


@pytest.mark.parametrize("values", SOURCES)
def test_the_program_takes_the_settings(values: str) -> None:
    found = find(render(VALUES[values]), "DaemonSet", "nvidia-driver-runtime")
    given = env(found)

    settings = Settings(
        location=given["DRIVER_LOCATION"],
        version=given["DRIVER_VERSION"],
        sha256=given["DRIVER_SHA256"],
        proxy=given.get("DRIVER_PROXY", ""),
        ca_file=given.get("DRIVER_CA_FILE", ""),
    )

    assert problems(settings) == ()
    for path in (settings.location, settings.ca_file):
        assert not path.startswith("/") or path.rpartition("/")[0] in mounts(found)


def test_where_the_package_comes_from() -> None:
    volume = daemon_set(location="a.run", pvc="drivers")
    folder = daemon_set(location="a.run", folder="/srv/drivers")

    assert env(volume)["DRIVER_LOCATION"] == env(folder)["DRIVER_LOCATION"] == "/driver/a.run"
    assert mounts(volume)["/driver"]["persistentVolumeClaim"]["claimName"] == "drivers"
    assert mounts(folder)["/driver"]["hostPath"]["path"] == "/srv/drivers"
    assert "/driver" not in mounts(daemon_set())


def test_what_outlives_a_container_is_on_the_node() -> None:
    places, seen = Places(), mounts(daemon_set())

    assert seen[places.state]["hostPath"]["path"] == DRIVER_FOLDER == f"{STATE_FOLDER}/driver"
    assert seen[places.node]["hostPath"]["path"] == "/"
    assert seen[places.scratch] == {"name": "scratch", "emptyDir": {}}
    assert places.state == DRIVER_FOLDER
    assert daemon_set()["spec"]["template"]["spec"]["hostPID"] is True
    read_only = {m["mountPath"] for m in container(daemon_set())["volumeMounts"] if "readOnly" in m}
    assert places.node in read_only


def annotation(**values: Any) -> str:
    found = daemon_set(**values)["spec"]["template"]["metadata"]["annotations"]
    return str(found[ANNOTATION])


def test_pods_tell_which_driver_they_were_made_for() -> None:
    assert annotation() == annotation()
    assert len({annotation(), annotation(version="580.1"), annotation(sha256="0b" * 32)}) == 3


def test_the_manager_knows_it_for_laneways_own() -> None:
    found = daemon_set()

    assert found["metadata"]["name"] == DAEMON_SET
    assert OURS.items() <= found["metadata"]["labels"].items()


def test_the_manager_replaces_pods_only_where_there_is_a_toolkit() -> None:
    def rights(objects: Any) -> set[tuple[str, ...]]:
        rules = find(objects, "Role", "laneway-manager")["rules"]
        return {
            (*rule["resources"], *rule.get("resourceNames", ()), *rule["verbs"])
            for rule in rules
            if rule["resources"][0] in ("pods", "daemonsets")
        }

    def arguments(objects: Any) -> list[str]:
        spec = find(objects, "Deployment", "laneway-manager")["spec"]["template"]["spec"]
        return list(spec["containers"][0]["args"])

    without, with_one = render(), render({"driverToolkit": TOOLKIT})
    assert rights(without) == set()
    assert rights(with_one) == {
        ("daemonsets", DAEMON_SET, "get", "list", "watch"),
        ("pods", "delete"),
    }
    assert "--driver-toolkit" not in arguments(without)
    assert "--driver-toolkit" in arguments(with_one)
