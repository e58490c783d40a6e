"""A reference to an image, as the command line says it."""

from __future__ import annotations

import re

from laneway.cli.errors import Failure

_IMAGE = re.compile(
    r"[a-z0-9][a-z0-9._/:-]{0,254}(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[0-9a-f]{64})?"
)


def checked_image(reference: str) -> str:
    """The reference, if an image can have it. Raises Failure."""
    if not _IMAGE.fullmatch(reference):
        raise Failure(
            f"{reference[:80]!r} cannot be an image: give its registry and name with a tag or a "
            "digest, such as registry.example/laneway:0.1.0"
        )
    return reference
