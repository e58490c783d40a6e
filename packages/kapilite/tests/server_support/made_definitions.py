"""Definitions as Hypothesis makes them: most of them right, many slightly wrong."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from server_support.made_schemas import ODD, Made, Object, logic, pairs


def definition(schema: Object, **version: Any) -> Object:
    """The definition of a kind with one version that has this schema."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "as.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "as", "kind": "A"},
            "scope": "Cluster",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    **version,
                }
            ],
        },
    }


def root(fields: Object, **more: Any) -> Object:
    """The schema of a kind with these fields."""
    return {"type": "object", "properties": fields, **more}


def definitions(inner: Made) -> Made:
    """Definitions of one version with one schema in it, below `spec` or as the root's field."""
    plain = inner.map(lambda schema: definition(root({"spec": schema})))
    return plain | st.builds(
        lambda name, schema, more, has_status: definition(
            root({"spec": {"type": "object"}, name: schema}, **more),
            **({"subresources": {"status": {}}} if has_status else {}),
        ),
        st.sampled_from(["metadata", "kind", "apiVersion", "status", "spec"]),
        inner,
        st.lists(pairs({**ODD, "not": logic}), max_size=2).map(dict),
        st.booleans(),
    )


_labels = st.sampled_from(["as", "A", "a b", "", "x" * 64, "1a", "a-"])
_paths = st.sampled_from(
    [
        *(".spec.a", ".status.a", ".spec.b", ".spec.c", ".spec.a-b", ".kind", ".metadata.name"),
        *("spec.a", "", ".", ".spec", ".spec.", ".spec..a", ".spec[0]"),
    ]
)
_column_paths = st.sampled_from([".spec.a", ".metadata.name", "", "spec", ".status.a"])
_columns = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "name": st.sampled_from(["A", ""]),
            "type": st.sampled_from(["string", "integer", "date", "int", ""]),
            "jsonPath": _column_paths,
            "format": st.sampled_from(["int32", "date", "x", ""]),
            "priority": st.sampled_from([0, 1, -1]),
            "description": st.sampled_from(["", "a"]),
        },
    ),
    max_size=2,
)
_VERSION: dict[str, Made] = {
    "name": st.sampled_from(["v1", "v2", "v1beta1", "V1", "", "1", "v" * 64]),
    "served": st.booleans(),
    "storage": st.booleans(),
    "deprecated": st.booleans(),
    "deprecationWarning": st.sampled_from(
        ["", "old", "x" * 256, "x" * 257, "a\nb", "é", "a\u200b"]
    ),
    "schema": st.sampled_from(
        [
            None,  # over an empty one with selectable fields Kubernetes panics
            {"openAPIV3Schema": {"type": "object"}},
            {"openAPIV3Schema": root({"spec": root({"b": {"type": "string"}})})},
        ]
    ),
    "subresources": st.fixed_dictionaries(
        {},
        optional={
            "status": st.sampled_from([{}, None]),
            "scale": st.fixed_dictionaries(
                {},
                optional={
                    "specReplicasPath": _paths,
                    "statusReplicasPath": _paths,
                    "labelSelectorPath": _paths,
                },
            ),
        },
    ),
    "additionalPrinterColumns": _columns,
    "selectableFields": st.lists(st.builds(lambda path: {"jsonPath": path}, _paths), max_size=3),
}
_NAMES: dict[str, Made] = {
    "plural": _labels,
    "singular": _labels,
    "kind": st.sampled_from(["A", "AList", "", "a b", "É"]),
    "listKind": st.sampled_from(["A", "AList", "", "x" * 64, "a.b"]),
    "shortNames": st.lists(_labels, max_size=2),
    "categories": st.lists(_labels, max_size=2),
}
_SPEC: dict[str, Made] = {
    "group": st.sampled_from(
        ["example.com", "example", "", "Example.com", "a.k8s.io", "kubernetes.io", "x.example.com"]
    ),
    "scope": st.sampled_from(["Cluster", "Namespaced", "", "cluster"]),
    "preserveUnknownFields": st.booleans(),
    "conversion": st.sampled_from(
        [
            None,
            {},
            {"strategy": "None"},
            {"strategy": "Other"},
            {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}},
            {"strategy": "None", "webhook": {"clientConfig": {"url": "https://a"}}},
        ]
    ),
    "versions": st.sampled_from([[], None]),
}
_ANNOTATIONS = st.sampled_from(["", "unapproved, a test", "https://example.com/1", "nothing", "/a"])
_FIELDS = root(
    {
        "spec": root(
            {
                "a": {"type": "string"},
                "b": {"type": "object", "additionalProperties": {"type": "string"}},
                "c": {"type": "integer"},
                "a-b": {"type": "number"},
            }
        ),
        "status": root({"a": {"type": "integer"}}),
        "kind": {"type": "string"},
    }
)


@st.composite
def whole_definitions(draw: st.DrawFn) -> Object:
    """Definitions of some versions, a few fields of which are changed."""
    made = definition(_FIELDS, subresources={"status": {}})
    spec = made["spec"]
    for name in draw(st.lists(st.sampled_from(["v2", "v3", "v1"]), max_size=2)):
        more = {"name": name, "storage": False}
        spec["versions"].append({**copy.deepcopy(spec["versions"][0]), **more})
    for _ in range(draw(st.integers(1, 3))):
        table, holder = draw(
            st.sampled_from(
                [
                    *((_VERSION, version) for version in spec["versions"] or ()),
                    (_VERSION, None),
                    (_NAMES, spec["names"]),
                    (_SPEC, spec),
                ]
            )
        )
        name, value = draw(pairs(table))
        for one in (spec["versions"] or ()) if holder is None else (holder,):
            one[name] = copy.deepcopy(value)
    if draw(st.integers(0, 9)):
        made["metadata"]["name"] = f"{spec['names']['plural']}.{spec['group']}"
    if draw(st.booleans()):
        made["metadata"]["annotations"] = {"api-approved.kubernetes.io": draw(_ANNOTATIONS)}
    return made
