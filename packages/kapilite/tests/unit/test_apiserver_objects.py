"""Create, read, update and patch as clients see them."""

from __future__ import annotations

from typing import Any

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
NODES = "/api/v1/nodes"


async def test_a_new_object_gets_what_the_server_decides(
    api: Any, widgets: str, make_widget: Any
) -> None:
    sent = make_widget("a", color="red")
    sent["metadata"] |= {"uid": "mine", "generation": 7, "creationTimestamp": None}
    sent["status"] = {"phase": "Ready"}

    made = await api("POST", widgets, sent)

    assert made.status == 201
    meta = made.body["metadata"]
    assert meta["namespace"] == "default"
    assert meta["generation"] == 1
    assert meta["uid"] != "mine"
    assert int(meta["resourceVersion"]) > 0
    assert made.body["spec"] == {"color": "red", "size": 1}, "defaulted"
    assert "status" not in made.body, "status is written through its subresource"
    assert (await api("GET", f"{widgets}/a")).body == made.body


async def test_a_name_can_be_generated(api: Any, widgets: str, make_widget: Any) -> None:
    sent = make_widget("")
    sent["metadata"] = {"generateName": "job-"}

    names = {(await api("POST", widgets, sent)).body["metadata"]["name"] for _ in range(3)}

    assert len(names) == 3
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


async def test_an_existing_name_is_refused(api: Any, widgets: str, make_widget: Any) -> None:
    await api("POST", widgets, make_widget("a"))

    again = await api("POST", widgets, make_widget("a"))

    assert again.status == 409
    assert again.body["reason"] == "AlreadyExists"
    assert again.body["message"] == 'widgets.lab.example.com "a" already exists'


async def test_what_is_missing_is_named(api: Any, widgets: str, make_widget: Any) -> None:
    missing = await api("GET", f"{widgets}/a")
    assert (missing.status, missing.body["reason"]) == (404, "NotFound")
    assert missing.body["message"] == 'widgets.lab.example.com "a" not found'
    assert missing.body["details"] == {"name": "a", "group": "lab.example.com", "kind": "widgets"}

    elsewhere = await api("POST", widgets.replace("default", "nowhere"), make_widget("a"))
    assert elsewhere.status == 404
    assert elsewhere.body["message"] == 'namespaces "nowhere" not found'


async def test_every_cause_of_an_invalid_object_is_listed(
    api: Any, widgets: str, make_widget: Any
) -> None:
    refused = await api("POST", widgets, make_widget("Bad_Name", size=-1, color="green"))

    assert (refused.status, refused.body["reason"]) == (422, "Invalid")
    causes = {cause["field"]: cause for cause in refused.body["details"]["causes"]}
    assert causes.keys() == {"metadata.name", "spec.size", "spec.color", "<nil>"}
    assert "some validation rules were not checked" in causes["<nil>"]["message"]
    assert causes["spec.color"]["reason"] == "FieldValueNotSupported"
    assert (
        causes["spec.size"]["message"]
        == "Invalid value: -1: spec.size in body should be greater than or equal to 0"
    )
    assert refused.body["message"].startswith('Widget.lab.example.com "Bad_Name" is invalid: [')


async def test_unknown_fields_are_an_error_a_warning_or_ignored(
    api: Any, widgets: str, make_widget: Any
) -> None:
    sent = make_widget("a", sise=2)

    strict = await api("POST", widgets, sent, fieldValidation="Strict")
    assert strict.status == 400
    assert strict.body["message"].endswith('strict decoding error: unknown field "spec.sise"')

    warned = await api("POST", widgets, sent, fieldValidation="Warn", dryRun="All")
    assert warned.headers.getall("Warning") == ['299 - "unknown field \\"spec.sise\\""']

    ignored = await api("POST", widgets, sent, fieldValidation="Ignore")
    assert "Warning" not in ignored.headers
    assert ignored.body["spec"] == {"size": 1}, "pruned"


async def test_an_update_based_on_an_older_state_conflicts(
    api: Any, widgets: str, make_widget: Any
) -> None:
    first = (await api("POST", widgets, make_widget("a"))).body
    second = (await api("PUT", f"{widgets}/a", first | {"spec": {"size": 2}})).body

    late = await api("PUT", f"{widgets}/a", first | {"spec": {"size": 3}})
    assert (late.status, late.body["reason"]) == (409, "Conflict")
    assert late.body["message"] == (
        'Operation cannot be fulfilled on widgets.lab.example.com "a": '
        "the object has been modified; "
        "please apply your changes to the latest version and try again"
    )
    stale = {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}}
    assert (await api.patch(f"{widgets}/a", stale)).status == 409
    assert (await api("GET", f"{widgets}/a")).body == second

    without = make_widget("a", size=3)
    assert (await api("PUT", f"{widgets}/a", without)).status == 422


async def test_generation_counts_changes_of_the_spec_only(
    api: Any, widgets: str, make_widget: Any
) -> None:
    await api("POST", widgets, make_widget("a"))

    labelled = await api.patch(f"{widgets}/a", {"metadata": {"labels": {"x": "y"}}})
    assert labelled.body["metadata"]["generation"] == 1
    changed = await api.patch(f"{widgets}/a", {"spec": {"size": 2}})
    assert changed.body["metadata"]["generation"] == 2
    reported = await api.patch(f"{widgets}/a/status", {"status": {"phase": "Ready"}})
    assert reported.body["metadata"]["generation"] == 2


async def test_a_write_that_changes_nothing_is_no_change(
    api: Any, widgets: str, make_widget: Any
) -> None:
    made = (await api("POST", widgets, make_widget("a", size=2))).body

    assert (await api.patch(f"{widgets}/a", {"spec": {"size": 2}})).body == made
    assert (await api("PUT", f"{widgets}/a", made)).body == made


async def test_status_and_the_rest_are_written_separately(
    api: Any, widgets: str, make_widget: Any
) -> None:
    await api("POST", widgets, make_widget("a", size=2))

    both = {"spec": {"size": 9}, "status": {"phase": "Ready"}, "metadata": {"labels": {"x": "y"}}}
    status = (await api.patch(f"{widgets}/a/status", both)).body
    assert status["spec"] == {"size": 2}
    assert "labels" not in status["metadata"]
    assert status["status"] == {"phase": "Ready"}

    main = (await api.patch(f"{widgets}/a", {"spec": {"size": 3}, "status": {"phase": "Bad"}})).body
    assert main["spec"] == {"size": 3}
    assert main["status"] == {"phase": "Ready"}


async def test_server_owned_metadata_cannot_be_changed(
    api: Any, widgets: str, make_widget: Any
) -> None:
    made = (await api("POST", widgets, make_widget("a"))).body["metadata"]

    wish = {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 99, "labels": {"x": "y"}}
    meta = (await api.patch(f"{widgets}/a", {"metadata": wish})).body["metadata"]

    assert meta["creationTimestamp"] == made["creationTimestamp"]
    assert meta["generation"] == 1
    other = await api.patch(f"{widgets}/a", {"metadata": {"uid": "another"}})
    assert (other.status, other.body["reason"]) == (422, "Invalid")


async def test_a_dry_run_does_everything_but_store(
    api: Any, widgets: str, make_widget: Any
) -> None:
    tried = await api("POST", widgets, make_widget("a"), dryRun="All")
    assert tried.status == 201
    assert tried.body["spec"] == {"size": 1}
    assert (await api("GET", f"{widgets}/a")).status == 404
    assert (await api("POST", widgets, make_widget("a", size=-1), dryRun="All")).status == 422

    made = (await api("POST", widgets, make_widget("a"))).body
    patched = await api.patch(f"{widgets}/a", {"spec": {"size": 5}}, dryRun="All")
    assert patched.body["spec"]["size"] == 5
    assert (await api("DELETE", f"{widgets}/a", dryRun="All")).status == 200
    assert (await api("GET", f"{widgets}/a")).body == made


async def test_an_immutable_field_stays(api: Any, widgets: str, make_widget: Any) -> None:
    await api("POST", widgets, make_widget("a", serial="s1"))

    refused = await api.patch(f"{widgets}/a", {"spec": {"serial": "s2"}})
    assert refused.status == 422
    assert refused.body["details"]["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "message": 'Invalid value: "s2": serial is immutable',
            "field": "spec.serial",
        }
    ]
    assert (await api.patch(f"{widgets}/a", {"spec": {"size": 2}})).status == 200


async def test_json_patches(api: Any, widgets: str, make_widget: Any) -> None:
    await api("POST", widgets, make_widget("a", size=2))
    test = {"op": "test", "path": "/spec/size", "value": 2}
    change = {"op": "replace", "path": "/spec/size", "value": 3}

    assert (await api.patch(f"{widgets}/a", [test, change], "json-patch")).body["spec"]["size"] == 3
    failed = await api.patch(f"{widgets}/a", [test, change], "json-patch")
    assert (failed.status, failed.body["reason"]) == (422, "Invalid")
    assert (await api.patch(f"{widgets}/a", {"op": "add"}, "json-patch")).status == 400
    root = [{"op": "replace", "path": "", "value": 5}]
    assert (await api.patch(f"{widgets}/a", root, "json-patch")).status == 422


async def test_only_known_patch_types_are_taken(api: Any, widgets: str, make_widget: Any) -> None:
    await api("POST", widgets, make_widget("a"))

    strategic = await api.patch(f"{widgets}/a", {}, "strategic-merge-patch")
    assert strategic.status == 415
    assert strategic.body["message"].endswith(
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


async def test_builtin_lists_merge_by_key(api: Any) -> None:
    conditions = [{"type": "Ready", "status": "False"}, {"type": "Disk", "status": "True"}]
    node = {"metadata": {"name": "n1"}, "status": {"conditions": conditions}}
    assert (await api("POST", NODES, node)).status == 201

    patch = {
        "status": {
            "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "Disk"}],
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "Disk", "$patch": "delete"},
            ],
        }
    }
    patched = await api.patch(f"{NODES}/n1/status", patch, "strategic-merge-patch")

    (condition,) = patched.body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "True")


async def test_yaml_is_as_good_as_json(api: Any) -> None:
    text = b"metadata: {name: a}\ndata:\n  when: '2001-01-01'\n  # a comment\n  x: \"yes\"\n"
    made = await api("POST", CONFIGMAPS, text, content_type="application/yaml")
    assert made.status == 201
    assert made.body["data"] == {"when": "2001-01-01", "x": "yes"}

    shown = await api("GET", f"{CONFIGMAPS}/a", headers={"Accept": "application/yaml"})
    assert shown.body.startswith(b"apiVersion: v1\nkind: ConfigMap\n")


async def test_the_text_of_a_secret_is_kept_encoded(api: Any) -> None:
    secret = {"metadata": {"name": "s"}, "stringData": {"password": "abc"}}
    made = await api("POST", "/api/v1/namespaces/default/secrets", secret)
    assert made.body["data"] == {"password": "YWJj"}
    assert "stringData" not in made.body
    assert made.body["type"] == "Opaque"


async def test_an_object_must_fit_its_address(api: Any, widgets: str, make_widget: Any) -> None:
    wrong = make_widget("a") | {"apiVersion": "lab.example.com/v2"}
    assert (await api("POST", widgets, wrong)).status == 400
    wrong = make_widget("a")
    del wrong["kind"]
    assert (await api("POST", widgets, wrong)).body["message"] == "Object 'Kind' is missing"
    wrong = make_widget("a")
    wrong["metadata"]["namespace"] = "kube-system"
    assert (await api("POST", widgets, wrong)).status == 400
    await api("POST", widgets, make_widget("a"))
    renamed = await api.patch(f"{widgets}/a", {"metadata": {"name": "b"}})
    assert renamed.status == 400
    labels = {"metadata": {"labels": {"x": 1}}}
    assert (await api.patch(f"{widgets}/a", labels)).status == 422


async def test_who_creates_a_namespace_owns_what_was_said_and_its_label(api: Any) -> None:
    made = await api("POST", "/api/v1/namespaces", {"metadata": {"name": "a"}})
    assert [entry["fieldsV1"] for entry in made.body["metadata"]["managedFields"]] == [
        {"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}}
    ]


async def test_structs_that_kubernetes_always_writes_have_no_owner(api: Any) -> None:
    labels = {"app": "a"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "x", "image": "y"}]},
    }
    spec = {"selector": {"matchLabels": labels}, "template": template}
    sent = {"metadata": {"name": "a"}, "spec": spec, "status": {"replicas": 1}}
    made = await api("POST", "/apis/apps/v1/namespaces/default/deployments", sent)
    (entry,) = made.body["metadata"]["managedFields"]
    assert entry["fieldsV1"].keys() == {"f:spec"}
    own = entry["fieldsV1"]["f:spec"]
    assert "." not in own
    assert own["f:template"]["f:metadata"] == {"f:labels": {".": {}, "f:app": {}}}
    assert own["f:template"]["f:spec"]["f:containers"].keys() == {'k:{"name":"x"}'}
    assert own["f:strategy"]["f:rollingUpdate"]["."] == {}


async def test_a_pods_status_is_not_its_creators(api: Any) -> None:
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "x", "image": "y"}]}}
    made = await api("POST", "/api/v1/namespaces/default/pods", pod)
    (entry,) = made.body["metadata"]["managedFields"]
    assert entry["fieldsV1"].keys() == {"f:spec"}
