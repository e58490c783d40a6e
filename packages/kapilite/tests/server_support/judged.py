"""Objects of Kubernetes' own kinds, as they are completed and judged."""

from __future__ import annotations

import copy
from typing import Any

from kapilite import builtin

Object = dict[str, Any]
KINDS = {kind.kind: kind for kind in builtin.KINDS}


def complete(kind: str, spec: Object) -> Object:
    """An object with its defaults."""
    obj = {"metadata": {"name": "x", "namespace": "default"}, "spec": copy.deepcopy(spec)}
    assert builtin.complete(KINDS[kind], obj) == []
    return obj


def refused(kind: str, spec: Object, old: Object | None = None) -> list[str]:
    """Why an object may not be stored in place of an old one."""
    before = complete(kind, old) if old is not None else None
    found = builtin.problems(KINDS[kind], complete(kind, spec), before)
    return [f"{problem.field}: {problem.message}" for problem in found]
