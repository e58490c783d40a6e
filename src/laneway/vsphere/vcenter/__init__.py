"""A vCenter, by pyVmomi: the implementation of the port (`laneway.vsphere.port`).

pyVmomi is imported here and nowhere else; it costs half a second.
"""

from laneway.vsphere.vcenter.client import Connection, connect

__all__ = ["Connection", "connect"]
