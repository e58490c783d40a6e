"""ValidatingAdmissionPolicies of the chart, checked and judged by our own CEL.

Neither our server nor one of Kubernetes 1.20 has such policies. What a cluster would do with them
is done here: types are checked with what Kubernetes declares, then the variables are worked out in
their order, and what a validation says of a request is reported. In the tier of Kubernetes'
libraries, these judge each request as well, and have to say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kapilite.cel.checker import check
from kapilite.cel.program import CALL_LIMIT, Budget, program
from kapilite.cel.types import BOOL, DYN, STRING, list_of, map_of, object_of
from support.accounts import rendered
from support.checker import Checker, checker

NODE_NAME = "authentication.kubernetes.io/node-name"

_REQUEST = object_of(
    {
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "subResource": STRING,
        "resource": object_of({"group": STRING, "version": STRING, "resource": STRING}),
        "userInfo": object_of(
            {
                "username": STRING,
                "uid": STRING,
                "groups": list_of(STRING),
                "extra": map_of(STRING, list_of(STRING)),
            }
        ),
    }
)


class Policy:
    """One policy."""

    def __init__(self, obj: dict[str, Any]) -> None:
        self.name = obj["metadata"]["name"]
        self.spec = obj["spec"]
        self._obj = obj

    def check(self) -> None:
        """Raises CelSyntaxError where a cluster would not take it."""
        variables: dict[str, Any] = {}
        scope = {"object": DYN, "oldObject": DYN, "request": _REQUEST}

        def type_of(text: str) -> Any:
            known = {**scope, "variables": object_of(variables)}
            return check(text, program(text).tree, known)

        for one in self.spec["matchConditions"]:
            assert type_of(one["expression"]) == BOOL
        for one in self.spec.get("variables", ()):
            variables[one["name"]] = type_of(one["expression"])
        for one in self.spec["validations"]:
            assert type_of(one["expression"]) == BOOL
            if "messageExpression" in one:
                assert type_of(one["messageExpression"]) == STRING

    def concerns(self, request: Mapping[str, Any]) -> bool:
        """Whether its rules and conditions match."""
        resource = request["resource"]
        kind, sub = resource["resource"], request.get("subResource")
        patterns = {f"{kind}/{sub}", f"{kind}/*", f"*/{sub}"} if sub else {kind, "*"}
        patterns.add("*/*")
        matches = any(
            resource["group"] in rule["apiGroups"]
            and request["operation"] in rule["operations"]
            and patterns & set(rule["resources"])
            for rule in self.spec["matchConstraints"]["resourceRules"]
        )
        return matches and all(
            _value(one["expression"], request, {}) for one in self.spec["matchConditions"]
        )

    def verdict(self, request: Mapping[str, Any]) -> str:
        """What is said against a request that it concerns; empty: nothing."""
        said = self._refusal(request)
        if libraries := checker():
            assert said == self._refusal_by(libraries, request), self.name
        return said

    def _refusal_by(self, libraries: Checker, request: Mapping[str, Any]) -> str:
        """The same in the words of Kubernetes' libraries."""
        named = ("operation", "resource", "name", "namespace", "userInfo")
        answer = libraries.ask(
            "admit",
            policy=self._obj,
            request={key: request[key] for key in named if key in request}
            | {"subresource": request.get("subResource", "")},
            object=request.get("object"),
            oldObject=request.get("oldObject"),
        )
        refused = (one["message"] for one in answer["decisions"] if one["action"] == "deny")
        return next(refused, "")

    def _refusal(self, request: Mapping[str, Any]) -> str:
        variables: dict[str, Any] = {}
        for one in self.spec.get("variables", ()):
            variables[one["name"]] = _value(one["expression"], request, variables)
        for one in self.spec["validations"]:
            if not _value(one["expression"], request, variables):
                if "messageExpression" in one:
                    return str(_value(one["messageExpression"], request, variables))
                return str(one["message"])
        return ""


def _value(text: str, request: Mapping[str, Any], variables: dict[str, Any]) -> Any:
    scope = {
        "object": request.get("object"),
        "oldObject": request.get("oldObject"),
        # Kubernetes leaves out what is empty: of a request about no subresource, `subResource`.
        "request": {key: value for key, value in request.items() if value and "bject" not in key},
        "variables": variables,
    }
    return program(text).evaluate(scope, Budget(CALL_LIMIT))


def policies(values: Mapping[str, Any] | None = None) -> list[Policy]:
    """Those of the chart."""
    found = rendered(values)
    return [Policy(one) for one in found if one["kind"] == "ValidatingAdmissionPolicy"]


def refusal(found: list[Policy], request: Mapping[str, Any], node: str) -> str:
    """What policies say against a request that comes from an agent on a node."""
    user = {**request["userInfo"], "extra": {NODE_NAME: [node]}}
    asked = {**request, "userInfo": user}
    said = (one.verdict(asked) for one in found if one.concerns(asked))
    return next(filter(None, said), "")
