"""Boot loaders, each behind the same few functions: `loader.Loader`."""

from __future__ import annotations

from laneway.core.preparation.facts import LoaderName
from laneway.core.preparation.loaders import bls, elemental, grub, systemd_boot
from laneway.core.preparation.loaders.loader import Loader

LOADERS: dict[LoaderName, Loader] = {
    "grub": grub.DEBIAN,
    "grub2": grub.SUSE,
    "bls": bls.LOADER,
    "systemd-boot": systemd_boot.LOADER,
    "elemental": elemental.LOADER,
}
"""All but `unknown`, which nothing can be written for."""
