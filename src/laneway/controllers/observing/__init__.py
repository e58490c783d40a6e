"""What a host shows: scans, what the driver tells, and what changes without an event."""
