"""Alongside CAPV: machines with devices are checked, reserved and reported; the clone is CAPV's."""
