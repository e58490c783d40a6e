"""Carrying out plans: journal, audit, state folder, execution, recovery."""
