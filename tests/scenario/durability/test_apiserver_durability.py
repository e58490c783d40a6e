"""What was answered is there after `kill -9`, and watchers resume.

A server as `laneway up` has it, with TLS and RBAC, is killed at random moments, also while it
starts, and is started again on the same files. Meanwhile writers create, replace, patch, apply and
delete objects, held by finalizers or not, and families of objects are deleted with their owner,
their namespace, their definition or as a collection. Watchers follow all of it, without a pause or
now and then. `LANEWAY_KILLS` says how often, `LANEWAY_SEED` with what luck.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, NamedTuple

import aiohttp
import pytest

KILLS = int(os.environ.get("LANEWAY_KILLS", "4"))
NAMES = 5
"""Names that one writer uses: few, so that each is created, changed and deleted again and again."""
SECONDS = 60

Object = dict[str, Any]
GROUP = "durability.laneway.example"
CORE, OWN = "/api/v1", f"/apis/{GROUP}/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
CONFIGMAPS, THINGS = "configmaps", "things"
KINDS = {CONFIGMAPS: (CORE, "v1", "ConfigMap"), THINGS: (OWN, f"{GROUP}/v1", "Thing")}
HOLD = f"{GROUP}/hold"
JSON, MERGE, JSON_PATCH, APPLY = (
    "application/json",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
)


def in_namespace(plural: str, namespace: str = "default") -> str:
    return f"{KINDS[plural][0]}/namespaces/{namespace}/{plural}"


def definition(kind: str) -> Object:
    plural = f"{kind.lower()}s"
    texts = {"type": "object", "additionalProperties": {"type": "string"}}
    schema = {"type": "object", "properties": {"data": texts, "status": texts}}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"plural": plural, "kind": kind},
            "scope": "Namespaced",
            "versions": [version | {"schema": {"openAPIV3Schema": schema}}],
        },
    }


def version_of(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


def digest(obj: Object) -> int:
    return hash(json.dumps(obj, sort_keys=True))


class State(NamedTuple):
    """What requests make of an object."""

    value: str
    status: str = ""
    applied: str = ""
    held: bool = False
    going: bool = False


def state_of(obj: Object | None) -> State | None:
    if obj is None:
        return None
    meta, data = obj["metadata"], obj["data"]
    return State(
        data["value"],
        obj.get("status", {}).get("value", ""),
        data.get("applied", ""),
        meta.get("finalizers") == [HOLD],
        "deletionTimestamp" in meta,
    )


class Writer:
    """Changes objects of its own, and remembers what the server has answered."""

    def __init__(self, plural: str, number: int, seed: int) -> None:
        self.plural = plural
        self.prefix = f"w{number}-"
        self.path = in_namespace(plural)
        self.head = dict(zip(("apiVersion", "kind"), KINDS[plural][1:], strict=True))
        self.random = random.Random(seed)
        self.known: dict[str, Object] = {}
        self.open: tuple[str, State | None, int] | None = None
        """A request that was sent and not answered: what it makes, and of what version."""
        self.answered: dict[int, int] = {}
        """What the answers have shown, by version."""
        self.deleted = 0
        self.count = 0

    async def run(self, api: Any) -> None:
        while True:
            await self._change(api, f"{self.prefix}{self.random.randrange(NAMES)}")

    async def _change(self, api: Any, name: str) -> None:
        self.count += 1
        newest = api.newest
        old = self.known.get(name)
        wanted, *request = self._request(name, old, str(self.count))
        self.open = name, wanted, version_of(old) if old else newest
        method, path, body, media_type = request
        params = {"fieldManager": self.prefix, "force": "true"} if media_type == APPLY else {}
        status, answer = await api.call(method, path, body, media_type, **params)
        assert status < 300, (request, answer)
        self.open = None
        if wanted is None:
            del self.known[name]
            self.deleted += 1
            return
        assert state_of(answer) == wanted, request
        assert version_of(answer) > newest, "every version is greater than all seen before it"
        self.known[name] = answer
        self.answered[version_of(answer)] = digest(answer)

    def _request(
        self, name: str, old: Object | None, n: str
    ) -> tuple[State | None, str, str, Any, str]:
        """What it makes of the object, method, path, body, media type."""
        path = f"{self.path}/{name}"
        meta: Object = {"name": name, "labels": {"writer": "yes"}}
        applied = {**self.head, "metadata": meta, "data": {"value": n, "applied": n}}
        was = state_of(old)
        if old is None or was is None:
            if self.random.random() < 0.3:
                return State(n, applied=n), "PATCH", path, applied, APPLY
            held = self.random.random() < 0.5
            meta |= {"finalizers": [HOLD]} if held else {}
            body = {**self.head, "metadata": meta, "data": {"value": n, "pad": "y" * 500}}
            return State(n, held=held), "POST", self.path, body, JSON
        can = ["replace", "merge", "json", "apply", "release" if was.going else "delete"]
        match self.random.choice([*can, "status"] if self.plural == THINGS else can):
            case "replace":
                body = {**old, "data": {**old["data"], "value": n}}
                return was._replace(value=n), "PUT", path, body, JSON
            case "merge":
                return was._replace(value=n), "PATCH", path, {"data": {"value": n}}, MERGE
            case "json":
                patch = [{"op": "replace", "path": "/data/value", "value": n}]
                return was._replace(value=n), "PATCH", path, patch, JSON_PATCH
            case "apply":
                return was._replace(value=n, applied=n), "PATCH", path, applied, APPLY
            case "status":
                body = {"status": {"value": n}}
                return was._replace(status=n), "PATCH", f"{path}/status", body, MERGE
            case "delete":
                return was._replace(going=True) if was.held else None, "DELETE", path, None, JSON
        return None, "PATCH", path, {"metadata": {"finalizers": None}}, MERGE

    def check(self, listed: list[Object]) -> None:
        """Every answered write is there; one without an answer happened or did not."""
        found = {
            item["metadata"]["name"]: {**item, **self.head}
            for item in listed
            if item["metadata"]["name"].startswith(self.prefix)
        }
        if self.open is not None:
            name, wanted, since = self.open
            now = found.get(name)
            if now != self.known.get(name):
                assert state_of(now) == wanted, name
                assert now is None or version_of(now) > since
                self.known = {key: obj for key, obj in self.known.items() if key != name}
                self.known |= {name: now} if now else {}
        self.open = None
        assert found == self.known


class Watcher:
    """Follows objects through all restarts, and so knows what there is."""

    def __init__(self, plural: str, **params: str) -> None:
        self.plural = plural
        self.path = f"{KINDS[plural][0]}/{plural}"
        self.params = params
        self.rv = 0
        self.now: dict[tuple[str, str], int] = {}
        self.seen: dict[int, int] = {}

    async def begin(self, api: Any) -> None:
        found = await api.done("GET", self.path, **self.params)
        self.rv = version_of(found)
        self.now = {self._key(item): digest(self._whole(item)) for item in found["items"]}

    async def run(self, api: Any, until: int | None = None) -> None:
        params = {"watch": "1", "resourceVersion": str(self.rv), **self.params}
        async with api.session.get(self.path, params=params) as response:
            async for line in response.content:
                if not line.endswith(b"\n"):
                    return  # cut off by the kill: not an event
                self._take(json.loads(line))
                api.note(self.rv)
                if self.rv == until:
                    return

    def _take(self, event: Object) -> None:
        obj, change = event["object"], event["type"]
        assert change in ("ADDED", "MODIFIED", "DELETED"), event
        assert version_of(obj) > self.rv, "no event comes twice, and they come in order"
        self.rv = version_of(obj)
        key, self.seen[self.rv] = self._key(obj), digest(self._whole(obj))
        assert (change == "ADDED") == (key not in self.now), "none is left out"
        if change == "DELETED":
            del self.now[key]
        else:
            self.now[key] = self.seen[self.rv]

    def check(self, listed: list[Object]) -> None:
        """What the events have said is what there is."""
        wanted = listed
        if self.params:
            wanted = [item for item in listed if "writer" in item["metadata"].get("labels", {})]
        assert self.now == {self._key(item): digest(self._whole(item)) for item in wanted}

    def _whole(self, obj: Object) -> Object:
        """Items of lists may do without apiVersion and kind."""
        return obj | dict(zip(("apiVersion", "kind"), KINDS[self.plural][1:], strict=True))

    @staticmethod
    def _key(obj: Object) -> tuple[str, str]:
        return obj["metadata"]["namespace"], obj["metadata"]["name"]


class Family:
    """Objects that go together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[str, bool] = {}
        """Paths, and whether the creation was answered; the head is the first."""
        self.head = ""
        self.params: dict[str, str] = {}
        self.asked = "no"
        """Whether to be deleted; "open" as long as that is not answered."""

    async def add(self, api: Any, path: str, body: Object) -> Object:
        meta = body["metadata"]
        meta["labels"] = {"family": self.name}
        member = f"{path}/{meta['name']}"
        self.members[member] = False
        answer = await api.done("POST", path, body)
        self.members[member] = True
        return answer

    async def delete(self, api: Any) -> None:
        self.asked = "open"
        for path in [self.head] if self.head else map(in_namespace, KINDS):
            status, answer = await api.call("DELETE", path, **self.params)
            assert status < 300 or (status == 404 and not self.members.get(path)), answer
        self.asked = "yes"

    async def is_settled(self, api: Any) -> bool:
        """Whether all that had to follow has followed; what had to stay must be there."""
        there = {path: obj for path in self.members if (obj := await api.find(path))}
        answered = {path for path, done in self.members.items() if done}
        head = there.pop(self.head, None)
        goes = self.asked == "yes"
        if self.asked == "open":
            if not self.head:
                return True  # any part of a collection
            goes = head is None or "deletionTimestamp" in head["metadata"]
        if not goes:
            assert answered <= there.keys() | {self.head}
            assert head is not None or self.head not in answered
            self.asked = "no"
            return True
        if self.params.get("propagationPolicy") != "Orphan":
            return head is None and not there
        assert answered - {self.head} <= there.keys()
        owners = [
            ref for obj in there.values() for ref in obj["metadata"].get("ownerReferences", ())
        ]
        if head is not None or any(ref["name"] == self.name for ref in owners):
            return False
        self.head, self.params = "", {"labelSelector": f"family={self.name}"}
        await self.delete(api)
        return False


class Families:
    """Makes families and deletes them, one after the other."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.all: list[Family] = []
        self.deleting = asyncio.Event()
        self.count = 0
        self.checked = 0

    async def run(self, api: Any) -> None:
        for family in list(self.all):
            await self._delete(api, family)
        while True:
            self.count += 1
            family = Family(f"family-{self.count}")
            self.all.append(family)
            ways = (self._owner, self._namespace, self._definition, self._collection)
            await self.random.choice(ways)(api, family)
            if self.random.random() < 0.9:
                await self._delete(api, family)

    async def _delete(self, api: Any, family: Family) -> None:
        self.deleting.set()
        await family.delete(api)

    async def _owner(self, api: Any, family: Family) -> None:
        policy = self.random.choice(("Background", "Foreground", "Orphan"))
        family.params = {"propagationPolicy": policy}
        path = in_namespace(CONFIGMAPS)
        family.head = f"{path}/{family.name}"
        head = await family.add(api, path, {"metadata": {"name": family.name}})
        for number in range(4):
            parent = head
            for plural in (THINGS, CONFIGMAPS, THINGS):
                ref = {key: parent[key] for key in ("apiVersion", "kind")}
                ref |= {key: parent["metadata"][key] for key in ("name", "uid")}
                name = f"{parent['metadata']['name']}-{number}"
                meta = {"name": name, "ownerReferences": [ref | {"blockOwnerDeletion": True}]}
                parent = await family.add(api, in_namespace(plural), thing(plural, meta))
            change = {"data": {"value": "1"}}
            await api.done("PATCH", f"{in_namespace(plural)}/{name}", change, media_type=MERGE)

    async def _namespace(self, api: Any, family: Family) -> None:
        family.head = f"{CORE}/namespaces/{family.name}"
        await family.add(api, f"{CORE}/namespaces", {"metadata": {"name": family.name}})
        await self._content(api, family, family.name, CONFIGMAPS, THINGS)

    async def _definition(self, api: Any, family: Family) -> None:
        body = definition(f"T{self.count}")
        plural = f"t{self.count}s"
        family.head = f"{DEFINITIONS}/{body['metadata']['name']}"
        await family.add(api, DEFINITIONS, body)
        for number in range(5):
            body = {"apiVersion": f"{GROUP}/v1", "kind": f"T{self.count}"}
            meta = {"name": f"{family.name}-{number}"}
            await family.add(api, f"{OWN}/namespaces/default/{plural}", body | {"metadata": meta})

    async def _collection(self, api: Any, family: Family) -> None:
        family.params = {"labelSelector": f"family={family.name}"}
        await self._content(api, family, "default", CONFIGMAPS, THINGS)

    async def _content(self, api: Any, family: Family, namespace: str, *plurals: str) -> None:
        for number in range(4):
            for plural in plurals:
                meta = {"name": f"{family.name}-{number}"}
                await family.add(api, in_namespace(plural, namespace), thing(plural, meta))

    async def check(self, api: Any) -> None:
        async with asyncio.timeout(SECONDS):
            for family in self.all:
                while not await family.is_settled(api):  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0.005)
                self.checked += family.asked != "no"
        self.all = [family for family in self.all if family.asked == "no"]


def thing(plural: str, meta: Object) -> Object:
    head = dict(zip(("apiVersion", "kind"), KINDS[plural][1:], strict=True))
    return {**head, "metadata": meta, "data": {"value": "0"}}


async def until_killed(work: Coroutine[Any, Any, None]) -> None:
    with suppress(aiohttp.ClientError, ConnectionError):
        await work


class World:
    """Everybody who talks to the server, over all of its lives."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        plurals = (CONFIGMAPS, THINGS) * 2
        self.writers = [Writer(plural, at, seed + at) for at, plural in enumerate(plurals)]
        self.families = Families(seed)
        self.live = {plural: Watcher(plural) for plural in KINDS}
        self.late = {
            CONFIGMAPS: Watcher(CONFIGMAPS, labelSelector="writer"),
            THINGS: Watcher(THINGS),
        }

    @property
    def watchers(self) -> list[Watcher]:
        return [*self.live.values(), *self.late.values()]

    def count(self) -> int:
        return sum(writer.count for writer in self.writers) + self.families.count

    def summary(self, newest: int) -> str:
        writes = sum(len(writer.answered) + writer.deleted for writer in self.writers)
        events = sum(len(watcher.seen) for watcher in self.watchers)
        return (
            f"{writes} answered writes, {self.families.checked} families deleted, "
            f"{events} events, resourceVersion {newest}"
        )

    async def prepare(self, api: Any) -> None:
        """What is answered here is needed by every request that follows."""
        name = {"metadata": {"name": "writer"}}
        every = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        subject = {"kind": "User", "name": "writer", "apiGroup": "rbac.authorization.k8s.io"}
        ref = {"kind": "ClusterRole", "name": "writer", "apiGroup": "rbac.authorization.k8s.io"}
        await api.done("POST", f"{ROLES}/clusterroles", name | {"rules": [every]})
        binding = name | {"subjects": [subject], "roleRef": ref}
        await api.done("POST", f"{ROLES}/clusterrolebindings", binding)
        await api.done("POST", DEFINITIONS, definition("Thing"))
        for watcher in self.watchers:
            await watcher.begin(api)

    async def load(self, api: Any, kill: Callable[[], Awaitable[None]]) -> None:
        """Everybody at work, until the server is killed at some moment."""
        work = [*self.writers, self.families, *self.live.values()]
        tasks = [asyncio.create_task(until_killed(one.run(api))) for one in work]
        goal = self.count() + self.chance.randrange(1, 200)
        async with asyncio.timeout(SECONDS):
            while self.count() < goal and not any(task.done() for task in tasks):  # noqa: ASYNC110 - kills by chance
                await asyncio.sleep(self.chance.random() / 200)
        if self.chance.random() < 0.5:  # into what follows from a deletion
            self.families.deleting.clear()
            async with asyncio.timeout(SECONDS):
                await self.families.deleting.wait()
            await asyncio.sleep(self.chance.random() / 50)
        early = [task for task in tasks if task.done()]
        await kill()
        await asyncio.gather(*tasks)
        assert not early, "no watch and no connection ends without a kill"

    async def check(self, api: Any, *, everybody: bool = False) -> None:
        """The server has everything that its clients know of, and the watchers catch up."""
        newest = api.newest
        lists = {w.plural: await api.done("GET", w.path) for w in self.live.values()}
        assert all(version_of(found) >= newest for found in lists.values()), "none goes back"
        for writer in self.writers:
            writer.check(lists[writer.plural]["items"])
        await self.families.check(api)

        # An event that a watcher must come to in the end shows that it has seen all before.
        for plural, live in self.live.items():
            mark = thing(plural, {"name": "mark", "labels": {"writer": "yes"}})
            mark["data"]["value"] = str(newest)
            path = f"{in_namespace(plural)}/mark"
            made = await api.done("PATCH", path, mark, media_type=APPLY, fieldManager="mark")
            listed = (await api.done("GET", live.path))["items"]
            answered = {
                k: v for w in self.writers if w.plural == plural for k, v in w.answered.items()
            }
            late = everybody or self.chance.random() < 0.5
            for watcher in (live, self.late[plural])[: 1 + late]:
                async with asyncio.timeout(SECONDS):
                    await watcher.run(api, until=version_of(made))
                watcher.check(listed)
                assert answered.items() <= watcher.seen.items(), "every write was seen as answered"
                assert watcher.seen.items() <= live.seen.items(), "all have seen the same"


@pytest.mark.slow
@pytest.mark.timeout(120 + 10 * KILLS)
async def test_every_acknowledged_write_survives_a_kill(server: Any) -> None:
    seed = int(os.environ.get("LANEWAY_SEED", "1"))
    world, chance = World(seed), random.Random(seed)
    await server.start()
    async with server.client("admin") as admin:
        await world.prepare(admin)
    for _ in range(KILLS):
        if chance.random() < 0.2:
            await asyncio.sleep(chance.random() / 50)
            await server.kill()  # perhaps while it still starts
        else:
            async with server.client("writer") as api:
                await world.check(api)
                await world.load(api, server.kill)
        await server.start()
    async with server.client("writer") as api:
        await world.check(api, everybody=True)
    sys.stdout.write(f"{KILLS} kills: {world.summary(server.newest)}\n")
