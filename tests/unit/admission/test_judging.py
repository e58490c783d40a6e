"""What is answered when a question, an object or a rule is not as it should be."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from laneway.admission import review
from laneway.admission.access import AccessReviews
from laneway.admission.judging import Change, Judged, Judging, Kind
from laneway.admission.metrics import AdmissionMetrics, Outcome
from laneway.admission.request import Request
from laneway.admission.verdict import ALLOWED, Granted, Rules, Verdict
from laneway.admission.wording import WARNING_LIMIT, WARNINGS_LIMIT, within_limits
from laneway.admission.world import World
from laneway.api import CoreNode, PCIDeviceClaim
from laneway.core import keys
from laneway.core.refusals import FieldImmutable
from laneway.kube.client import Client
from laneway.kube.kubevirt import VirtualMachine
from support.reviewing import GROUP, SILENT, claim, make_vm, well_formed
from support.reviewing import review as question

CLAIMS, MACHINES = (GROUP, "pcideviceclaims"), ("kubevirt.io", "virtualmachines")
NODES = ("", "nodes")


def wrong(field: str = "") -> FieldImmutable:
    """A refusal that is about a field, or about none."""
    return FieldImmutable("Thing", "a", "size", field, "1")


class Stage:
    """Rules of the test's, and what they were shown."""

    def __init__(self) -> None:
        self.shown: list[Request[Any]] = []
        self.verdict: Verdict | Exception = ALLOWED
        self.change = Change()
        self.registry = CollectorRegistry()
        metrics = AdmissionMetrics(self.registry)
        rules = Rules(self._judge)
        kinds = {
            CLAIMS: Kind("PCIDeviceClaim", PCIDeviceClaim, rules, self._mutate),
            NODES: Kind("Node", CoreNode, rules, self._mutate, foreign=True),
            MACHINES: Kind(
                "VirtualMachine",
                VirtualMachine,
                rules,
                self._mutate,
                foreign=True,
                asks_for_devices=True,
            ),
        }
        access = AccessReviews(Client(SILENT), metrics)
        self.judging = Judging(kinds, World(), access, metrics)

    def _judge(self, request: Request[Any], _world: World, _granted: Granted) -> Verdict:
        self.shown.append(request)
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict

    def _mutate(self, *_: Any) -> Change:
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.change

    async def ask(self, kind: tuple[str, str], *args: Any, **more: Any) -> dict[str, Any]:
        mutates = more.pop("mutates", False)
        whole = question(kind[1], *args, group=kind[0])
        whole["request"] |= more
        asked = review.read(msgspec.json.encode(whole))
        self.judged: Judged = await (self.judging.mutate if mutates else self.judging.validate)(
            asked
        )
        return well_formed(review.write(asked.version, asked.uid, self.judged.answer), asked.uid)


@pytest.fixture
async def stage() -> Stage:
    return Stage()


async def test_rules_see_who_requests_what(stage: Stage) -> None:
    assert (await stage.ask(CLAIMS, "UPDATE", claim(), claim(userName="bob")))["allowed"]
    (request,) = stage.shown
    assert (request.operation, request.name) == ("UPDATE", "node1-000001000")
    assert request.requester.username == "anna"
    assert tuple(request.requester.groups) == ("people",)
    assert request.new is not None
    assert request.old is not None
    assert (request.new.spec.user_name, request.old.spec.user_name) == ("anna", "bob")


async def test_a_creation_whose_name_is_still_to_be_made_up_is_judged(stage: Stage) -> None:
    new = claim()
    new["metadata"] = {"generateName": "a-"}
    assert (await stage.ask(CLAIMS, "CREATE", new))["allowed"]
    assert stage.shown[0].name == ""


@pytest.mark.parametrize(
    ("fields", "code", "reason"),
    [
        (("spec.a", "spec.b"), 422, "Invalid"),
        (("spec.a", ""), 403, "Forbidden"),
        (("", "spec.b"), 403, "Forbidden"),
    ],
)
async def test_a_refusal_tells_reason_words_and_field(
    stage: Stage, fields: tuple[str, str], code: int, reason: str
) -> None:
    stage.verdict = Verdict(tuple(map(wrong, fields)), ("Mind the gap.",))
    response = await stage.ask(CLAIMS, "CREATE", claim())
    assert not response["allowed"]
    status = response["status"]
    assert (status["code"], status["reason"]) == (code, reason)
    words = wrong().words
    assert status["message"] == f"{words}\n{words}"
    cause = {"reason": "FieldImmutable", "message": words}
    causes = status["details"]["causes"]
    assert causes == [cause | ({"field": field} if field else {}) for field in fields]
    assert "warnings" not in response  # of what a write would bring about that does not happen
    reported = stage.registry.get_sample_value
    assert reported("laneway_admission_refusals_total", {"reason": "FieldImmutable"}) == 2
    assert reported("laneway_admission_warnings_total") == 0


@pytest.mark.parametrize("mutates", [False, True])
async def test_a_defect_refuses_our_own_and_lets_vms_pass(
    stage: Stage, caplog: pytest.LogCaptureFixture, mutates: bool
) -> None:
    stage.verdict = ZeroDivisionError("oh")
    response = await stage.ask(CLAIMS, "CREATE", claim(), mutates=mutates)
    assert not response["allowed"]
    assert response["status"]["code"] == 403
    assert stage.judged.outcome is Outcome.FAILED
    response = await stage.ask(NODES, "CREATE", make_vm(), mutates=mutates)
    assert response["allowed"]
    assert "The write passed unchecked." in response["warnings"][0]
    assert stage.judged.outcome is Outcome.FAILED
    assert "ZeroDivisionError" in caplog.text


ODD = [{"metadata": 7}, {"metadata": {"name": 3}}, [], "text", 9, {"spec": []}]


@pytest.mark.parametrize("odd", ODD)
async def test_what_cannot_be_read_is_refused_if_ours_and_passes_if_not(
    stage: Stage, odd: Any
) -> None:
    response = await stage.ask(CLAIMS, "CREATE", object=odd)
    assert not response["allowed"]
    assert response["status"]["code"] == 400
    assert stage.judged.outcome is Outcome.UNREADABLE
    response = await stage.ask(NODES, "CREATE", object=odd)
    assert response["allowed"]
    assert "has not checked it" in response["warnings"][0]
    assert stage.shown == []


def asking(devices: Any, **meta: Any) -> dict[str, Any]:
    spec = {"template": {"spec": {"domain": {"devices": devices}}}}
    return {"metadata": {"name": "vm", "namespace": "a", **meta}, "spec": spec}


ASKS = asking({"gpus": [{"name": 5}]})
LABELLED = asking({"gpus": [{"name": 5}]}, labels={"a": "b"})
NOTED = asking({"gpus": [{"name": 5}]}, annotations={keys.ANNOTATION_REQUESTERS: "[]"})
TYPED: dict[str, Any] = {"spec": {"instancetype": {"name": "gpu"}, "template": {"spec": {}}}}


@pytest.mark.parametrize("mutates", [False, True])
@pytest.mark.parametrize(
    ("new", "old", "allowed"),
    [
        (ASKS, None, False),
        (asking({"hostDevices": {"name": "a"}}), None, False),
        (asking([]), None, False),
        (TYPED, None, False),
        ({"spec": {"virtualMachineTemplate": ASKS}}, None, False),
        (ASKS, asking({}), False),
        (NOTED, ASKS, False),
        (asking({"gpus": []}), None, True),
        (asking({}), ASKS, True),
        (LABELLED, ASKS, True),
    ],
)
async def test_what_requests_devices_never_passes_unjudged(
    stage: Stage, new: Any, old: Any, *, allowed: bool, mutates: bool
) -> None:
    """Neither where it cannot be read nor where a rule fails; but it can be mended and deleted."""
    stage.verdict = ZeroDivisionError()
    operation = "CREATE" if old is None else "UPDATE"

    response = await stage.ask(MACHINES, operation, new, old, mutates=mutates)

    assert response["allowed"] is allowed
    assert allowed or response["status"]["message"]
    assert (await stage.ask(MACHINES, "DELETE", None, new, mutates=mutates))["allowed"]


async def test_an_object_that_cannot_be_read_may_be_mended_and_deleted(stage: Stage) -> None:
    odd = {"metadata": {"name": "a"}, "spec": []}
    assert (await stage.ask(CLAIMS, "UPDATE", claim(), odd))["allowed"]
    assert stage.shown[0].operation == "CREATE"
    response = await stage.ask(CLAIMS, "DELETE", None, odd)
    assert response["allowed"]
    assert len(stage.shown) == 1


async def test_what_there_are_no_rules_for_passes_and_is_reported(stage: Stage) -> None:
    response = await stage.ask(("apps", "deployments"), "CREATE", claim())
    assert response["allowed"]
    assert "no rules" in response["warnings"][0]


@pytest.mark.parametrize("asked", [{"operation": "CONNECT"}, {"subResource": "status"}])
async def test_other_operations_and_subresources_pass_unseen(
    stage: Stage, asked: dict[str, str]
) -> None:
    stage.verdict = Verdict((wrong(),))
    assert (await stage.ask(CLAIMS, "UPDATE", claim(), claim(), **asked))["allowed"]
    assert stage.shown == []


async def test_a_mutation_is_a_json_patch(stage: Stage) -> None:
    operation = {"op": "add", "path": "/spec/userName", "value": "anna"}
    stage.change = Change((operation,), ("Mind it.",))
    response = await stage.ask(CLAIMS, "CREATE", claim(), mutates=True)
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == [operation]
    assert response["warnings"] == ["Mind it."]
    assert "patch" not in await stage.ask(CLAIMS, "DELETE", None, claim(), mutates=True)


def test_warnings_are_cut_where_it_can_be_said() -> None:
    assert within_limits(["a\nb\x1b[0m", "", "  ", "a\nb\x1b[0m"]) == ["a b [0m"]
    (cut,) = within_limits(["x" * 1000])
    assert len(cut) == WARNING_LIMIT
    (listed,) = within_limits(["Offered: " + ", ".join(["NVIDIA A2-4Q"] * 30)])
    assert listed.endswith("NVIDIA A2-4Q…")
    assert len(listed) <= WARNING_LIMIT
    assert cut.endswith("…")
    many = within_limits([f"{n} " + "x" * 250 for n in range(100)])
    assert sum(map(len, many)) <= WARNINGS_LIMIT
    assert many[-1] == f"{100 - len(many) + 1} more warnings are left out."
