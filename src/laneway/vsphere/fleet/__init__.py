"""The vCenters that Laneway looks after: connections, inventory, and what machines are promised."""
