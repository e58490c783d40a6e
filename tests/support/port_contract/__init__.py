"""What every vCenter behind `laneway.vsphere.port` does: tests that run on each that we have.

`tests/vcenter/adapter` runs them over SOAP, on the simulator, and `tests/unit/vsphere/test_port.py`
on the one in memory, so that it cannot become another thing than the simulator.
"""
