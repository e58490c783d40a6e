"""Virtual functions of cards: how many an object requests, and the steps to that number."""
