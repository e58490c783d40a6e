"""The ledger: who has which device, who keeps one, who waits for one, and what is free."""
