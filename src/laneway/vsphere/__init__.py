"""GPU machines on vSphere: vCenter behind a port, and the controllers of Cluster API's kinds."""
