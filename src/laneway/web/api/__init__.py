"""JSON for programs, whose requests bring the token of their user. There is no session.

The user is who the API server says, and is answered what it lets the user see. Errors are Status
objects, as the API server's own.
"""
