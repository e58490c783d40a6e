"""What a user changes in a cluster: refused before the write, tried, written, awaited, undone.

Used by the commands and by the web interface, so that both refuse in the same words. No module here
prints or parses: input and results are typed, and progress goes to a callback.
"""
