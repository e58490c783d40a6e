"""Virtual functions of cards: how many an object asks for, and the steps to that number."""
