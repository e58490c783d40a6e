"""What every page needs to be Markdown."""

from __future__ import annotations

from collections.abc import Iterable


def page(title: str, introduction: str, *sections: str) -> str:
    """A whole page, with the note that it is made."""
    made = "<!-- Made by 'make reference'. Change the program, not this page. -->"
    parts = (made, f"# {title}", introduction, *sections)
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; empty without rows."""
    lines = ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    if not lines:
        return ""
    names = list(header)
    top = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return "\n".join([*top, *lines])


def code(text: str) -> str:
    """A name as it is written; nothing for nothing."""
    return f"`{text}`" if text else ""


def block(lines: Iterable[str], language: str = "") -> str:
    """Lines as they are typed or printed."""
    return "\n".join([f"```{language}", *lines, "```"])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")
