"""The rule for names such as `policy.example.com`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from laneway.apiserver.metadata import SUBDOMAIN_TEXT

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def subdomain(name: str) -> Iterator[str]:
    """What keeps a text from being a DNS subdomain."""
    if len(name) > 253:
        yield "must be no more than 253 characters"
    if not _SUBDOMAIN.fullmatch(name):
        yield SUBDOMAIN_TEXT
