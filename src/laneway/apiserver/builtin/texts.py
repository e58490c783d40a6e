"""What `kubectl explain` says about the built-in kinds, in Laneway's own words."""

from __future__ import annotations

TYPES: dict[str, str] = {}
FIELDS: dict[tuple[str, str], str] = {}
