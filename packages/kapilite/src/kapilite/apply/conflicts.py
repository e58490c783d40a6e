"""Refusing to overwrite what others own, in the words of Kubernetes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kapilite.apply.entries import UPDATE, Manager
from kapilite.apply.fieldset import FieldSet, shown
from kapilite.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Conflicts(Exception):  # noqa: N818 - named for what it carries
    """Fields that would change although other managers own them."""

    def __init__(self, fields: Mapping[Manager, FieldSet]) -> None:
        super().__init__(f"fields of {len(fields)} managers")
        self.fields = dict(sorted(fields.items()))

    def outside(self, allowed: FieldSet) -> Conflicts | None:
        """Those that are not among the allowed fields."""
        left = {m: rest for m, fields in self.fields.items() if (rest := fields - allowed)}
        return Conflicts(left) if left else None

    def refusal(self) -> ApiError:
        causes = [
            {
                "reason": "FieldManagerConflict",
                "message": f"conflict with {_named(manager)}",
                "field": shown(path),
            }
            for manager, fields in self.fields.items()
            for path in fields
        ]
        if len(causes) == 1:
            text = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
            return ApiError(409, "Conflict", text, causes=causes)
        lines = []
        for manager, fields in self.fields.items():
            lines.append(f"conflicts with {_named(manager)}:")
            lines += [f"- {shown(path)}" for path in fields]
        text = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
        return ApiError(409, "Conflict", text, causes=causes)


def _named(manager: Manager) -> str:
    text = json.dumps(manager.name, ensure_ascii=False)
    if manager.subresource:
        text += f" with subresource {json.dumps(manager.subresource, ensure_ascii=False)}"
    if manager.operation == UPDATE:
        text += f" using {manager.api_version}"
    return text
