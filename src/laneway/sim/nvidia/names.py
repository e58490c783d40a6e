"""What NVIDIA's programs call the boards of the built-in models and of common dumps."""

from __future__ import annotations

from laneway.sim.dump import Block
from laneway.sim.nvidia.types import hex_id

_NAMES = {
    "20b5": ("NVIDIA A100 80GB PCIe", "Ampere"),
    "20b7": ("NVIDIA A30", "Ampere"),
    "20f1": ("NVIDIA A100-PCIE-40GB", "Ampere"),
    "2235": ("NVIDIA A40", "Ampere"),
    "2236": ("NVIDIA A10", "Ampere"),
    "2330": ("NVIDIA H100 80GB HBM3", "Hopper"),
    "2331": ("NVIDIA H100 PCIe", "Hopper"),
    "25b6": ("NVIDIA A2", "Ampere"),
    "26b9": ("NVIDIA L40S", "Ada Lovelace"),
    "27b8": ("NVIDIA L4", "Ada Lovelace"),
    "2bb5": ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "Blackwell"),
}
_UNKNOWN = ("NVIDIA Graphics Device", "N/A")


def product_name(block: Block) -> str:
    return _NAMES.get(hex_id(block, "device"), _UNKNOWN)[0]


def architecture(block: Block) -> str:
    return _NAMES.get(hex_id(block, "device"), _UNKNOWN)[1]
