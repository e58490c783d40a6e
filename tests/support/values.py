"""Values of every kind of step and refusal, as Hypothesis draws them."""

from __future__ import annotations

import typing
from typing import get_args

import msgspec
from hypothesis import strategies as st

from laneway.core.pci import PciAddress
from laneway.core.refusals import Refusal, WriteFailed

NAMES = st.text("abcdefgh-", min_size=1, max_size=12)
ADDRESSES = st.builds(
    PciAddress, st.just(0), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7)
)


def of_type(hint: object) -> st.SearchStrategy[typing.Any]:
    """Values of a field; texts are names."""
    if hint is str:
        return NAMES
    if hint is PciAddress:
        return ADDRESSES
    if typing.get_origin(hint) is tuple:
        inner, *more = get_args(hint)
        if more == [...]:
            return st.lists(of_type(inner), max_size=3).map(tuple)
        return st.tuples(of_type(inner), *map(of_type, more))
    if hint is Refusal:  # that of another refusal
        return built(WriteFailed)
    if isinstance(hint, type) and (issubclass(hint, msgspec.Struct) or hasattr(hint, "_fields")):
        return built(hint)
    return st.from_type(hint)


def built(kind: type) -> st.SearchStrategy[typing.Any]:
    """Any value of a struct."""
    hints = typing.get_type_hints(kind)
    fields = kind._fields if hasattr(kind, "_fields") else kind.__struct_fields__
    return st.builds(kind, **{name: of_type(hints[name]) for name in fields})
