"""Sets of Cluster API's Machines, whichever provider makes them."""
