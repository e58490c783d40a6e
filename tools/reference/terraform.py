"""Pages of the Terraform provider, from its schema: docs/terraform/.

They are made in the provider's environment, `.venv-terraform`; `--check` writes nothing, names the
pages that are stale, and fails.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from reference.markdown import block, code, page, table
from terraform_provider_laneway import functions, provider
from terraform_provider_laneway.registered import DATA_SOURCES, RESOURCES

FOLDER = Path(__file__).parents[2] / "docs" / "terraform"
_NAMES = {"string": "text", "number": "number", "bool": "true or false"}
_EXAMPLES = {
    "sriov_gpu": 'gpu = "node1/08:00.0"',
    "vgpu": 'gpu     = laneway_sriov_gpu.example.id\n  profile = "A2-4Q"',
    "vgpu_layout": 'name  = "example"\n  nodes = ["node1"]\n  vgpus = { "A2-4Q" = 4 }',
    "mig_configuration": 'gpu       = "node1/3b:00.0"\n  instances = { "1g.10gb" = 2 }',
    "pci_claim": 'device = "node1/04:00.1"',
    "usb_claim": 'device = "node1/3-1.2"',
    "virtual_machine_devices": (
        'virtual_machine = "web"\n'
        '  devices         = { "vgpu-0" = laneway_vgpu.example.resource_name }'
    ),
    "machine_pool_devices": (
        'cluster  = "guest"\n  pool     = "gpu"\n  machines = 3\n'
        '  devices  = { (provider::laneway::resource_name("NVIDIA A2-4Q")) = 1 }'
    ),
    "pci_devices": 'node      = "node1"\n  claimable = true',
    "vgpu_devices": 'gpu = "node1/08:00.0"',
    "sriov_gpus": "enabled = true",
    "capacity": 'request = { "nvidia.com/NVIDIA_A2-4Q" = 1 }\n  vms     = 3',
    "plan": 'gpu   = "node1/08:00.0"\n  vgpus = { "A2-4Q" = 4 }',
}
_CALLS = {
    "resource_name": 'provider::laneway::resource_name("NVIDIA A2-4Q")',
    "vgpu_info": 'provider::laneway::vgpu_info({ "nvidia.com/NVIDIA_A2-4Q" = 2 })',
}


def type_words(notation: Any) -> str:
    """A type in words: `map of numbers`."""
    match notation:
        case str():
            return _NAMES[notation]
        case ["list", ["object", fields]]:
            listed = ", ".join(f"`{name}` ({type_words(one)})" for name, one in fields.items())
            return f"list of objects with {listed}"
        case [kind, str(inner)]:
            return f"{kind} of {_NAMES[inner]}{'s' if inner != 'bool' else ''}"
        case _:
            raise ValueError(f"a type without words: {notation}")


def _row(one: Any) -> tuple[str, str, str]:
    description = one.description or ""
    if one.requires_replace:
        description += " A change replaces the resource."
    return code(one.name), type_words(json.loads(one.type.tf_type())), description


def _attributes(attributes: Iterable[Any]) -> Iterator[str]:
    every = list(attributes)
    groups = {
        "Required": [one for one in every if one.required],
        "Optional": [one for one in every if one.optional],
        "Read-only": [one for one in every if one.computed and not one.optional],
    }
    for title, found in groups.items():
        if found:
            yield f"## {title}"
            yield table(("attribute", "type", "meaning"), map(_row, found))


def resource(kind: Any) -> str:
    """The page of a resource."""
    name = f"laneway_{kind.name}"
    form = "/".join(part.upper() for part in kind.key)
    parts = [f'resource "{name}" "example" {{', f"  {_EXAMPLES[kind.name]}", "}"]
    return page(
        name,
        kind.about,
        block(parts, "terraform"),
        *_attributes(kind.get_schema().attributes),
        "## Import",
        block([f"terraform import {name}.example {form}"], "sh"),
    )


def data_source(kind: Any) -> str:
    """The page of a data source."""
    name = f"laneway_{kind.name}"
    parts = [f'data "{name}" "example" {{', f"  {_EXAMPLES[kind.name]}", "}"]
    return page(
        f"Data source {name}",
        kind.about,
        block(parts, "terraform"),
        *_attributes(kind.get_schema().attributes),
    )


def function(kind: Any) -> str:
    """The page of a function."""
    signature = kind.get_signature()
    rows = [
        (code(one.name), type_words(json.loads(one.type.tf_type())), one.description)
        for one in signature.parameters
    ]
    return page(
        f"Function {kind.get_name()}",
        signature.description,
        block([_CALLS[kind.get_name()]], "terraform"),
        "## Arguments",
        table(("argument", "type", "meaning"), rows),
    )


def index() -> str:
    """The page of the provider."""
    needed = [
        "terraform {",
        "  required_providers {",
        "    laneway = {",
        f'      source  = "{provider.SOURCE}"',
        f'      version = "{version("terraform-provider-laneway")}"',
        "    }",
        "  }",
        "}",
        "",
        'provider "laneway" {',
        '  kubeconfig = "harvester.yaml"',
        "}",
    ]
    resources = [
        (f"[laneway_{one.name}](resources/{one.name}.md)", _first(one.about)) for one in RESOURCES
    ]
    data = [
        (f"[laneway_{one.name}](data-sources/{one.name}.md)", _first(one.about))
        for one in DATA_SOURCES
    ]
    called = [
        (f"[{one.get_name()}](functions/{one.get_name()}.md)", one.get_signature().summary)
        for one in functions.ALL
    ]
    return page(
        "Terraform provider",
        provider.ABOUT + " To install it, and two complete examples: "
        "[Use Terraform](../how-to/terraform.md).",
        block(needed, "terraform"),
        *_attributes(provider.ATTRIBUTES),
        "## Resources",
        table(("resource", "what it manages"), resources),
        "## Data sources",
        table(("data source", "what it reads"), data),
        "## Functions",
        table(("function", "what it gives"), called),
    )


def _first(text: str) -> str:
    """The first sentence."""
    return re.split(r"(?<=\.) ", text, maxsplit=1)[0]


def pages() -> dict[str, str]:
    """All pages by their paths."""
    found = {"index.md": index()}
    found |= {f"resources/{one.name}.md": resource(one) for one in RESOURCES}
    found |= {f"data-sources/{one.name}.md": data_source(one) for one in DATA_SOURCES}
    found |= {f"functions/{one.get_name()}.md": function(one) for one in functions.ALL}
    return found


def main() -> int:
    check, failed = "--check" in sys.argv[1:], False
    made = pages()
    for name, text in made.items():
        path = FOLDER / name
        if path.exists() and path.read_text() == text:
            continue
        failed = True
        if check:
            print(f"docs/terraform/{name} is stale: run make reference")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(f"wrote docs/terraform/{name}")
    for path in sorted(FOLDER.rglob("*.md")):
        if str(path.relative_to(FOLDER)) not in made:
            failed = True
            print(f"docs/terraform/{path.relative_to(FOLDER)} is about nothing: delete it")
    return 1 if check and failed else 0


if __name__ == "__main__":
    sys.exit(main())
