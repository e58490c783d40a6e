"""The vCenters that Laneway manages: connections, inventory and reservations."""
