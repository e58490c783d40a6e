"""Pictures of devices, drawn on the server from plain data: what occupies a GPU, what is free."""
