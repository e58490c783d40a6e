"""Objects: creation, the patches, status apart from spec, deletion."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from laneway.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    InvalidError,
    NotFoundError,
)

JSON_PATCH = "application/json-patch+json"


async def test_a_new_object_gets_its_identity_from_the_server(api: Any) -> None:
    made = await api.create(metadata={"uid": "mine", "labels": {"a": "b"}})

    meta = made["metadata"]
    assert meta["uid"] not in ("", "mine")
    assert meta["generation"] == 1
    assert meta["labels"] == {"a": "b"}
    assert meta["creationTimestamp"].endswith("Z")
    read = await api.call("GET", api.name())
    assert _essence(read) == _essence(made)


def _essence(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    return {**obj, "metadata": metadata}


async def test_a_name_can_be_taken_once(api: Any) -> None:
    await api.create()

    with pytest.raises(AlreadyExistsError) as refusal:
        await api.create()

    assert refusal.value.code == 409
    assert api.name() in refusal.value.message


async def test_a_name_can_be_left_to_the_server(api: Any) -> None:
    body = {"generateName": api.name("gen-"), "name": ""}

    first, second = [await api.create(metadata=dict(body)) for _ in range(2)]

    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert first["metadata"]["name"].startswith(api.name("gen-"))


@pytest.mark.parametrize("name", ["Upper", "a_b", "-a", "a" * 254, "a/b"])
async def test_a_name_that_no_url_could_carry_is_refused(api: Any, name: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        await api.create(metadata={"name": name})

    assert [cause.field for cause in refusal.value.causes] == ["metadata.name"]


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
async def test_what_is_not_there_is_not_found(api: Any, method: str) -> None:
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    body = {} if method == "PATCH" else None

    with pytest.raises(NotFoundError) as refusal:
        await api.call(method, api.name("none"), body, content_type=content_type)

    assert f'"{api.name("none")}" not found' in refusal.value.message


async def test_a_merge_patch_changes_what_it_names_and_removes_what_it_nulls(api: Any) -> None:
    made = await api.create(metadata={"labels": {"keep": "1", "drop": "1"}})

    patched = await api.merge(
        api.name(),
        {
            "metadata": {"labels": {"drop": None, "new": "2"}},
            "spec": {"enabled": True, "vGPUTypeName": "NVIDIA A2-4Q"},
        },
    )

    assert patched["metadata"]["labels"] == {"keep": "1", "new": "2"}
    assert patched["spec"] == {**made["spec"], "enabled": True, "vGPUTypeName": "NVIDIA A2-4Q"}
    assert patched["metadata"]["generation"] == 2
    assert patched["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]


async def test_a_patch_of_nothing_changes_nothing(api: Any) -> None:
    made = await api.create()

    patched = await api.merge(api.name(), {"spec": {"enabled": False}})

    assert patched["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_labels_do_not_count_as_a_new_generation(api: Any) -> None:
    await api.create()

    patched = await api.merge(api.name(), {"metadata": {"labels": {"a": "b"}}})

    assert patched["metadata"]["generation"] == 1


async def test_a_patch_of_an_old_version_is_a_conflict(api: Any) -> None:
    made = await api.create()
    await api.merge(api.name(), {"spec": {"enabled": True}})

    with pytest.raises(ConflictError):
        await api.merge(
            api.name(),
            {
                "metadata": {"resourceVersion": made["metadata"]["resourceVersion"]},
                "spec": {"enabled": False},
            },
        )

    assert (await api.call("GET", api.name()))["spec"]["enabled"] is True


async def test_a_json_patch_applies_whole_or_not_at_all(api: Any) -> None:
    await api.create(metadata={"labels": {"a/b": "1"}})
    good = [
        {"op": "test", "path": "/spec/enabled", "value": False},
        {"op": "replace", "path": "/spec/enabled", "value": True},
        {"op": "remove", "path": "/metadata/labels/a~1b"},
    ]
    patched = await api.call("PATCH", api.name(), good, content_type=JSON_PATCH)
    assert patched["spec"]["enabled"] is True
    assert not patched["metadata"].get("labels")

    bad = [{"op": "replace", "path": "/spec/enabled", "value": False}, good[0] | {"value": True}]
    with pytest.raises(ApiError) as refusal:
        await api.call("PATCH", api.name(), bad, content_type=JSON_PATCH)

    assert refusal.value.code == 422
    assert (await api.call("GET", api.name()))["spec"]["enabled"] is True


async def test_a_json_patch_of_an_older_version_is_a_conflict(api: Any) -> None:
    made = await api.create()
    await api.merge(api.name(), {"spec": {"enabled": True}})
    older = made["metadata"]["resourceVersion"]
    body = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": older},
        {"op": "replace", "path": "/spec/enabled", "value": False},
    ]

    with pytest.raises(ConflictError):
        await api.call("PATCH", api.name(), body, content_type=JSON_PATCH)

    assert (await api.call("GET", api.name()))["spec"]["enabled"] is True


async def test_an_unknown_form_of_patch_is_refused(api: Any) -> None:
    await api.create()

    with pytest.raises(ApiError) as refusal:
        await api.call(
            "PATCH", api.name(), {}, content_type="application/strategic-merge-patch+json"
        )

    assert refusal.value.code == 415


async def test_a_replacement_needs_the_version_that_it_replaces(api: Any) -> None:
    made = await api.create()
    newer = await api.merge(api.name(), {"spec": {"enabled": True}})

    with pytest.raises(ConflictError):
        await api.call("PUT", api.name(), made)
    without = {**newer, "metadata": {"name": api.name()}}
    with pytest.raises(InvalidError, match=r"metadata\.resourceVersion"):
        await api.call("PUT", api.name(), without)
    spec = {field: made["spec"][field] for field in ("address", "nodeName")}
    replaced = await api.call("PUT", api.name(), {**newer, "spec": spec})

    assert replaced["spec"] == spec
    assert replaced["metadata"]["uid"] == made["metadata"]["uid"]


async def test_status_is_written_only_through_its_own_path(api: Any) -> None:
    made = await api.create(status={"uuid": "ignored"})
    assert "status" not in made

    patched = await api.merge(api.name(), {"status": {"uuid": "ignored"}})
    assert "status" not in patched
    patched = await api.merge(
        f"{api.name()}/status", {"spec": {"enabled": True}, "status": {"uuid": "u1"}}
    )

    assert patched["status"] == {"uuid": "u1"}
    assert patched["spec"]["enabled"] is False
    assert patched["metadata"]["generation"] == 1
    assert patched["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]


async def test_a_value_of_the_wrong_type_is_refused_by_its_field(api: Any) -> None:
    with pytest.raises(InvalidError) as refusal:
        await api.create(spec={"enabled": "yes"})

    fields = [cause.field for cause in refusal.value.causes]
    assert [field for field in fields if field != "<nil>"] == ["spec.enabled"]  # <nil>: no rule ran
    assert "boolean" in refusal.value.message


async def test_an_address_that_is_none_is_refused(api: Any) -> None:
    with pytest.raises(InvalidError) as refusal:
        await api.create(spec={"address": "../../etc"})

    assert [cause.field for cause in refusal.value.causes] == ["spec.address"]


async def test_unknown_fields_are_dropped_and_nulls_kept_where_the_contract_has_them(
    api: Any,
) -> None:
    made = await api.create(spec={"vGPUTypeName": None, "whim": 1})

    assert "whim" not in made["spec"]
    assert made["spec"]["vGPUTypeName"] is None


async def test_a_dry_run_leaves_no_trace(api: Any) -> None:
    body = await api.create("template")
    trial = {**body, "metadata": {"name": api.name("trial")}}

    made = await api.call("POST", body=trial, params={"dryRun": "All"})

    assert made["metadata"]["name"] == api.name("trial")
    with pytest.raises(NotFoundError):
        await api.call("GET", api.name("trial"))


async def test_deletion_is_of_the_object_that_is_meant(api: Any) -> None:
    made = await api.create()
    options = {"apiVersion": "v1", "kind": "DeleteOptions"}

    with pytest.raises(ConflictError):
        await api.call("DELETE", api.name(), {**options, "preconditions": {"uid": "other"}})
    await api.call(
        "DELETE", api.name(), {**options, "preconditions": {"uid": made["metadata"]["uid"]}}
    )

    with pytest.raises(NotFoundError):
        await api.call("GET", api.name())


async def test_a_finalizer_holds_an_object_until_it_is_taken_away(api: Any) -> None:
    await api.create(metadata={"finalizers": ["laneway.test/hold"]})

    await api.call("DELETE", api.name())
    held = await api.call("GET", api.name())
    assert held["metadata"]["deletionTimestamp"]
    with pytest.raises(InvalidError):
        await api.merge(
            api.name(), {"metadata": {"finalizers": ["laneway.test/hold", "laneway.test/more"]}}
        )
    await api.merge(api.name(), {"metadata": {"finalizers": None}})

    with pytest.raises(NotFoundError):
        await api.call("GET", api.name())


async def test_writers_at_the_same_time_lose_nothing(api: Any) -> None:
    await api.create()

    await asyncio.gather(
        *(
            api.merge(api.name(), {"metadata": {"labels": {f"writer{n}": "was-here"}}})
            for n in range(20)
        )
    )

    labels = (await api.call("GET", api.name()))["metadata"]["labels"]
    assert labels == {f"writer{n}": "was-here" for n in range(20)}
