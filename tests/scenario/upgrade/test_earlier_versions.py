"""What earlier versions of Laneway left behind, met by this one.

`tests/data/earlier` holds, for some commits, all objects and CRDs of a `laneway up` with desired
states on simulated hosts, and its data directory. Recorded by `tools/earlier/record.py`.
"""

from __future__ import annotations

import lzma
import signal
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import yaml

from kapilite.server import ApiServer
from laneway.api.crds import crds
from laneway.api.registry import KINDS
from support.examples import first
from support.processes import Api, Laneway
from support.skew.trees import RECORDED, SAFELY

VERSIONS = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OURS = {kind.kind: kind for kind in KINDS if kind.group}
REFUSED = {("SRIOVGPUDevice", "sim-a100-1-000031000")}
"""Objects with a desired state that was refused, and still is."""
READY = "Stop with Ctrl-C."

pytestmark = pytest.mark.parametrize("version", first(*VERSIONS))

Json = dict[str, Any]


def left_by(version: str) -> tuple[list[Json], list[Json]]:
    """The definitions of our kinds that a version installed, and the objects of these kinds."""
    text = lzma.decompress((RECORDED / version / "objects.yaml.xz").read_bytes())
    everything = list(yaml.load_all(text, yaml.CSafeLoader))
    installed = [obj for obj in everything if obj["kind"] == "CustomResourceDefinition"]
    groups = {kind.group for kind in OURS.values()}
    return (
        [crd for crd in installed if crd["spec"]["group"] in groups],
        [obj for obj in everything if obj["apiVersion"].partition("/")[0] in groups],
    )


class Server:
    """The embedded API server, and what is asked of it."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def call(self, method: str, path: str, body: Any = None, kind: str = "json") -> Json:
        headers = {"Content-Type": f"application/{kind}"}
        data = None if body is None else msgspec.json.encode(body)
        async with self._session.request(method, path, data=data, headers=headers) as response:
            answer: Json = await response.json()
            assert response.status < 300, answer
            return answer


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    embedded = ApiServer(str(tmp_path / "state.db"))
    await embedded.start()
    async with aiohttp.ClientSession(embedded.url) as session:
        yield Server(session)
    await embedded.stop()


def written(obj: Json) -> Json:
    """As a client creates it."""
    kept = ("name", "namespace", "labels", "annotations", "finalizers")
    metadata = {key: value for key, value in obj["metadata"].items() if key in kept}
    return {key: obj[key] for key in ("apiVersion", "kind", "spec") if key in obj} | {
        "metadata": metadata
    }


async def test_definitions_change_beneath_stored_objects(server: Server, version: str) -> None:
    """No object of an earlier version becomes invalid, loses a field, or cannot be read."""
    installed, objects = left_by(version)
    for crd in installed:
        await server.call(
            "POST",
            CRDS,
            {key: crd[key] for key in ("apiVersion", "kind", "spec")}
            | {"metadata": {"name": crd["metadata"]["name"]}},
        )
    stored = {}
    for obj in objects:
        path = OURS[obj["kind"]].path
        await server.call("POST", path, written(obj))
        path += "/" + obj["metadata"]["name"]
        subresource = "/status" if "status" in obj else ""
        status = {"status": obj.get("status")}
        stored[path] = await server.call("PATCH", path + subresource, status, "merge-patch+json")
        assert stored[path].get("status") == obj.get("status")

    names = {crd["metadata"]["name"] for crd in installed}
    for crd in crds():
        name = crd["metadata"]["name"]
        if name in names:
            body = {"spec": crd["spec"]}
            await server.call("PATCH", f"{CRDS}/{name}", body, "merge-patch+json")
        else:
            await server.call("POST", CRDS, crd)

    for path, before in stored.items():
        now = await server.call("GET", path)
        assert (now.get("spec"), now.get("status")) == (before.get("spec"), before.get("status"))
        # read without any tolerance, and taken again as it is
        msgspec.json.decode(msgspec.json.encode(now), type=OURS[now["kind"]].type)
        labels = {"metadata": {"labels": {"looked": "at"}}}
        touched = await server.call("PATCH", path, labels, "merge-patch+json")
        put = await server.call("PUT", path, touched)
        assert (put.get("spec"), put.get("status")) == (now.get("spec"), now.get("status"))


@pytest.mark.slow
async def test_a_data_directory_continues(tmp_path: Path, version: str) -> None:
    """Nothing is written to hardware that is as desired; no spec changes, statuses are written."""
    _, objects = left_by(version)
    arguments = yaml.safe_load((RECORDED / version / "desired.yaml").read_text())["arguments"]
    data = tmp_path / "data"
    with tarfile.open(RECORDED / version / "data.tar.xz") as archive:
        archive.extractall(data, **SAFELY)
    hosts = {path.name: path.read_bytes() for path in (data / "hosts").iterdir()}
    up = Laneway(
        "up", "--no-local", "--port", "0", "--ui-port", "0", "--data-dir", str(data), *arguments
    )
    try:
        up.until(READY)
        api = Api(data)
        now = {
            (item["kind"], item["metadata"]["name"]): item
            for kind in OURS.values()
            for item in api.call(kind.path)["items"]
        }
        for before in objects:
            key = (before["kind"], before["metadata"]["name"])
            assert now[key]["metadata"]["uid"] == before["metadata"]["uid"]
            assert now[key].get("spec") == before.get("spec")
            wrong = lost(reported(before), reported(now[key]))
            if key[0] == "USBDevice":
                wrong.pop("description", None)  # Harvester's form, which earlier versions had not
            assert not wrong, (key, wrong)
            ready = reported(now[key]).get("condition Ready")
            assert ready == ("True" if key not in REFUSED else "False"), (key, ready)
    finally:
        status = up.end(signal.SIGTERM)
    assert status == 0
    assert {path.name: path.read_bytes() for path in (data / "hosts").iterdir()} == hosts


def reported(obj: Json) -> Json:
    """What a status tells, but for words, which may get better."""
    status = obj.get("status") or {}
    conditions = status.get("conditions") or []
    entries = status.get("gpus") or []
    return {
        **{key: value for key, value in status.items() if key not in ("conditions", "gpus")},
        **{f"condition {one['type']}": one["status"] for one in conditions},
        **{
            f"{one['name']} {key}": value
            for one in entries
            for key, value in one.items()
            if key != "message"
        },
    }


def lost(before: Json, now: Json) -> Json:
    """What is not reported as before; more may be reported."""
    return {
        key: (value, now.get(key))
        for key, value in before.items()
        if not is_told(value, now.get(key))
    }


def is_told(before: Any, now: Any) -> bool:
    """Whether a value has all that it had, in objects inside it as well."""
    if isinstance(before, dict) and isinstance(now, dict):
        return all(key in now and is_told(value, now[key]) for key, value in before.items())
    if isinstance(before, list) and isinstance(now, list):
        return len(before) == len(now) and all(map(is_told, before, now))
    return bool(before == now)
