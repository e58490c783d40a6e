"""Icons of what is wrong: each has a shape of its own, so that colour is never the only sign."""

from __future__ import annotations

from enum import StrEnum

from markupsafe import Markup


class Icon(StrEnum):
    """What is wrong with something."""

    WARNING = "warning"
    ERROR = "error"


_SHAPES = {
    Icon.WARNING: "M8 .9 15.6 14.6H.4ZM7.1 5.6l.3 4.4h1.2l.3-4.4ZM7.1 11v1.8h1.8V11Z",
    Icon.ERROR: "M5 .8h6L15.2 5v6L11 15.2H5L.8 11V5ZM5.7 4.5 4.5 5.7 6.8 8 4.5 10.3l1.2 1.2L8 9.2"
    "l2.3 2.3 1.2-1.2L9.2 8l2.3-2.3-1.2-1.2L8 6.8Z",
}


def icon(kind: Icon) -> Markup:
    """An icon next to a text that says the same."""
    return Markup(
        '<svg class="pic-icon pic-icon-{}" viewBox="0 0 16 16" width="16" height="16"'
        ' focusable="false" aria-hidden="true"><path fill-rule="evenodd" d="{}"/></svg>'
    ).format(kind.value, _SHAPES[kind])
