"""The ledger of a cluster: its facts from the API, kept up to date, and counted."""
