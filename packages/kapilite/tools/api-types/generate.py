#!/usr/bin/env python3
"""Write `src/kapilite/builtin/types.json`: what the fields of the built-in kinds are.

The file holds facts only - names, types, protobuf numbers, list types, merge keys - and is read
from the struct declarations of Kubernetes' own Go packages, so that schemas, patches and protobuf
bodies agree with each other and with one release. README.md next to this says where the packages
come from and how the file is laid out.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOTS = (
    "admissionregistration.v1.MutatingWebhookConfiguration",
    "admissionregistration.v1.ValidatingWebhookConfiguration",
    "apiextensions.v1.CustomResourceDefinition",
    "apps.v1.DaemonSet",
    "apps.v1.Deployment",
    "apps.v1.ReplicaSet",
    "apps.v1.StatefulSet",
    "authentication.v1.SelfSubjectReview",
    "authentication.v1.TokenRequest",
    "authentication.v1.TokenReview",
    "authorization.v1.LocalSubjectAccessReview",
    "authorization.v1.SelfSubjectAccessReview",
    "authorization.v1.SelfSubjectRulesReview",
    "authorization.v1.SubjectAccessReview",
    "autoscaling.v1.Scale",
    "batch.v1.Job",
    "coordination.v1.Lease",
    "core.v1.Binding",
    "core.v1.ConfigMap",
    "core.v1.Endpoints",
    "core.v1.Event",
    "core.v1.Namespace",
    "core.v1.Node",
    "core.v1.PersistentVolumeClaim",
    "core.v1.Pod",
    "core.v1.Secret",
    "core.v1.Service",
    "core.v1.ServiceAccount",
    "discovery.v1.EndpointSlice",
    "events.v1.Event",
    "meta.v1.DeleteOptions",
    "networking.v1.NetworkPolicy",
    "policy.v1.Eviction",
    "policy.v1.PodDisruptionBudget",
    "rbac.v1.ClusterRole",
    "rbac.v1.ClusterRoleBinding",
    "rbac.v1.Role",
    "rbac.v1.RoleBinding",
    "resource.v1.DeviceClass",
    "resource.v1.ResourceClaim",
    "resource.v1.ResourceClaimTemplate",
    "resource.v1.ResourceSlice",
    "scheduling.v1.PriorityClass",
    "storage.v1.StorageClass",
)

SPECIAL = {
    "meta.v1.Time": "Time",
    "meta.v1.MicroTime": "MicroTime",
    "meta.v1.Duration": "Duration",
    "meta.v1.FieldsV1": "FieldsV1",
    "resource.Quantity": "Quantity",
    "intstr.IntOrString": "IntOrString",
    "runtime.RawExtension": "RawExtension",
    "apiextensions.v1.JSON": "JSON",
    "apiextensions.v1.JSONSchemaPropsOrArray": "JSONSchemaPropsOrArray",
    "apiextensions.v1.JSONSchemaPropsOrBool": "JSONSchemaPropsOrBool",
    "apiextensions.v1.JSONSchemaPropsOrStringArray": "JSONSchemaPropsOrStringArray",
}
"""Types with a JSON form of their own, which Laneway's code knows by these names."""

"""What releases after the packaged ones have added: fields, and whole structs."""

PLAIN = {
    "string": "string",
    "bool": "bool",
    "int": "int64",
    "int32": "int32",
    "int64": "int64",
    "float64": "double",
    "[]byte": "bytes",
    "byte": "byte",
}

FIELD = re.compile(r"^\t(?:(?P<name>\w+)\s+)?(?P<type>[^\s`/]+)\s+`(?P<tag>[^`]*)`")
TAG = re.compile(r'(\w+):"([^"]*)"')
STRUCT = re.compile(r"^type (\w+) struct ?\{")
ALIAS = re.compile(r"^type (\w+) (?!struct|interface)(\S+)")
CONST = re.compile(r'^\s+\w+\s+(\w+)\s+=\s+"([^"]*)"')
MARKER = re.compile(r"^\s*//\s*\+([\w.:/-]+)(?:=(.*))?")
IMPORT = re.compile(r'^\s*(?:import )?(?:(\w+) )?"k8s\.io/([^"]+)"')


def package_name(path: str) -> str:
    """`core.v1` of `k8s.io/api/core/v1`."""
    parts = path.split("/")
    if re.fullmatch(r"v\d\w*", parts[-1]):
        return f"{parts[-2]}.{parts[-1]}"
    return parts[-1]


def split(name: str) -> tuple[str, str]:
    """How values are arranged, and their type: `*`, `[]` or `map:` and what follows."""
    found = re.fullmatch(r"((?:\*|\[\](?!byte)|map:)*)(.+)", name)
    if found is None:
        sys.exit(f"generate.py: {name} is no type")
    return found[1], found[2]


class Source:
    """The declarations of all packages read so far."""

    def __init__(self) -> None:
        self.structs: dict[str, list[dict[str, Any]]] = {}
        self.aliases: dict[str, str] = {}
        self.marks: dict[str, list[tuple[str, str]]] = {}
        self.values: dict[str, list[str]] = {}

    def read(self, folder: Path, package: str) -> None:
        for path in sorted(folder.glob("*.go")):
            if not path.name.startswith(("zz_", "generated")) and "_test" not in path.name:
                self._read_file(path.read_text(), package)

    def _read_file(self, text: str, package: str) -> None:  # noqa: C901 - a case per kind of line
        imports: dict[str, str] = {}
        marks: list[tuple[str, str]] = []
        struct: str | None = None

        def resolved(name: str) -> str:
            found = re.fullmatch(r"((?:\*|\[\]|map\[[\w.]+\])*)([\w.]+)", name)
            if found is None:
                return name
            prefix, base = re.sub(r"map\[[\w.]+\]", "map:", found[1]), found[2]
            if "." in base:
                head, _, tail = base.partition(".")
                base = f"{imports.get(head, head)}.{tail}"
            elif base not in PLAIN:
                base = f"{package}.{base}"
            return prefix + base

        for line in text.splitlines():
            if match := IMPORT.match(line):
                imports[match[1] or match[2].rpartition("/")[2]] = package_name(match[2])
            elif match := MARKER.match(line):
                marks.append((match[1], (match[2] or "").strip()))
                continue
            elif line.lstrip().startswith("//"):
                continue
            elif match := STRUCT.match(line):
                struct = f"{package}.{match[1]}"
                self.structs[struct] = []
                self.marks[struct] = marks
                if line.rstrip().endswith("}"):
                    struct = None
            elif match := ALIAS.match(line):
                name = f"{package}.{match[1]}"
                self.aliases[name] = resolved(match[2])
                self.marks[name] = marks
            elif struct and line.startswith("}"):
                struct = None
            elif struct and (match := FIELD.match(line)):
                tags = dict(TAG.findall(match["tag"]))
                field = {"type": resolved(match["type"]), "tags": tags, "marks": marks}
                self.structs[struct].append(field)
            elif match := CONST.match(line):
                self.values.setdefault(f"{package}.{match[1]}", []).append(match[2])
            if line.strip():
                marks = []


def facts_of(marks: list[tuple[str, str]], tags: dict[str, str]) -> dict[str, Any]:
    """What markers and tags say about lists, maps and patches."""
    facts: dict[str, Any] = {}
    for mark, value in marks:
        if mark == "listType":
            facts["list"] = value
        elif mark == "listMapKey":
            facts.setdefault("keys", []).append(value)
        elif mark in ("mapType", "structType") and value == "atomic":
            facts["atomic"] = True
    for name, tag in (("patch", "patchStrategy"), ("merge", "patchMergeKey")):
        if tag in tags:
            facts[name] = tags[tag]
    return facts


class Table:
    """The types that the roots need."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.types: dict[str, Any] = {}

    def add(self, name: str) -> None:
        if name in self.types:
            return
        fields: dict[str, Any] = {}
        self.types[name] = entry = {"fields": fields}
        if ("structType", "atomic") in self.source.marks.get(name, []):
            entry["atomic"] = True
        if name not in self.source.structs:
            sys.exit(f"generate.py: {name} is declared in none of the folders")
        for field in self.source.structs[name]:
            self._field(name, field, fields)

    def _field(self, owner: str, field: dict[str, Any], fields: dict[str, Any]) -> None:
        tags = field["tags"]
        json_name, *options = tags.get("json", "").split(",")
        if field["type"].endswith(".TypeMeta"):
            self.types[owner]["typed"] = True
            return
        if json_name == "-":
            return
        inline = "inline" in options
        numbers = tags.get("protobuf", "").split(",")
        if len(numbers) < 2:
            sys.exit(f"generate.py: {owner}.{json_name} has no protobuf number")
        name = json_name or f"inline{numbers[1]}"
        type_, enum, items = self.resolve(field["type"])
        flags = ("i" if inline else "") + ("o" if "omitempty" in options else "")
        if any(mark == "optional" for mark, _ in field["marks"]):
            flags += "?"
        facts = {"enum": enum} if enum else {}
        facts |= ({"items": True} if items else {}) | facts_of(field["marks"], tags)
        row: list[Any] = [int(numbers[1]), type_]
        if flags or facts:
            row.append(flags)
        if facts:
            row.append(facts)
        fields[name] = row

    def resolve(self, name: str) -> tuple[str, list[str], bool]:
        """The type, its values where it is an enumeration, whether it is a message of `items`."""
        prefix, base = split(name)
        enum: list[str] = []
        items = False
        while base in self.source.aliases and base not in SPECIAL:
            marks = dict(self.source.marks[base])
            if "enum" in marks:
                enum = sorted(set(self.source.values.get(base, [])))
            items = items or "protobuf.nullable" in marks
            inner, base = split(self.source.aliases[base])
            prefix += inner
        if base in SPECIAL:
            base = SPECIAL[base]
        elif base in PLAIN:
            base = PLAIN[base]
        else:
            self.add(base)
        return prefix + base, enum, items


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--api", type=Path, required=True, help="k8s.io/api")
    parser.add_argument("--apimachinery", type=Path, required=True, help="k8s.io/apimachinery")
    parser.add_argument(
        "--apiextensions", type=Path, required=True, help="k8s.io/apiextensions-apiserver"
    )
    parser.add_argument("--release", required=True, help="the Kubernetes release, such as 1.32")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    source = Source()
    for folder in sorted(options.api.glob("*/v1")):
        source.read(folder, f"{folder.parent.name}.v1")
    source.read(options.apimachinery / "pkg/apis/meta/v1", "meta.v1")
    source.read(options.apiextensions / "pkg/apis/apiextensions/v1", "apiextensions.v1")
    source.read(options.apimachinery / "pkg/types", "types")
    table = Table(source)
    for root in ROOTS:
        table.add(root)
    lines = [
        f"{json.dumps(name)}: {json.dumps(table.types[name], separators=(',', ':'))}"
        for name in sorted(table.types)
    ]
    types = ",\n".join(lines)
    options.out.write_text(f'{{"release": "{options.release}", "types": {{\n{types}\n}}}}\n')


if __name__ == "__main__":
    main()
