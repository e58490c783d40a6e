"""pyVmomi's types, which it makes as it runs: to a type checker they are anything."""

from __future__ import annotations

import importlib
from typing import Any

_pyvmomi: Any = importlib.import_module("pyVmomi")
_support: Any = importlib.import_module("pyVmomi.VmomiSupport")

vim = _pyvmomi.vim
vmodl = _pyvmomi.vmodl
SoapStubAdapter = _pyvmomi.SoapStubAdapter
service_versions = _support.GetServiceVersions
version_ids = _support.versionIdMap
