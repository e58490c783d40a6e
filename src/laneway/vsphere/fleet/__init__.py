"""The vCenters that Laneway looks after: connections, inventory and reservations."""
