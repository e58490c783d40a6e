"""The planner's answers in sentences, the same in the terminal and in the web interface."""
