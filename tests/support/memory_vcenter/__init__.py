"""A vCenter in memory, behind the port: what the simulator does, without SOAP.

`MemoryVCenter` can be made to fail, and reports its state, by the methods of `support.vcenter`'s
`Simulator`, so a test can run on either. `connect` takes the place of `laneway.vsphere.vcenter`'s.
What both must do alike, `support.port_contract` proves of both.
"""

from support.memory_vcenter.connection import Connection, connect
from support.memory_vcenter.vcenter import MemoryVCenter

__all__ = ["Connection", "MemoryVCenter", "connect"]
