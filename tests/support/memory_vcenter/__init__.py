"""A vCenter in memory, behind the port: what the simulator does, without SOAP.

`MemoryVCenter` is told what goes wrong and tells the truth by the methods of `support.vcenter`'s
`Simulator`, so a test can run on either. `connect` takes the place of `laneway.vsphere.vcenter`'s.
What both must do alike, `support.port_contract` proves of both.
"""

from support.memory_vcenter.connection import Connection, connect
from support.memory_vcenter.vcenter import MemoryVCenter

__all__ = ["Connection", "MemoryVCenter", "connect"]
