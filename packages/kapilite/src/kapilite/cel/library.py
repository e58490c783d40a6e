"""All functions that expressions can call: importing this module declares them."""

from kapilite.cel import (
    conversions,
    formatting,
    kubernetes,
    lists,
    quantities,
    strings,
    times,
    versions,
)

__all__ = [
    "conversions",
    "formatting",
    "kubernetes",
    "lists",
    "quantities",
    "strings",
    "times",
    "versions",
]
