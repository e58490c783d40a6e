"""What of a node may be handed to pods, under which name, and what they are told with it."""
