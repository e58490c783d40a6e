"""The commands as they are typed: arguments, options and help.

A module here imports what its command needs when the command runs, so that help and completion
come at once.
"""
