"""The simulator, over SOAP, by the same rules as the vCenter in memory."""

from support.port_contract.rules import *  # noqa: F403 - the tests of the port
