"""What programs are answered: JSON, to a request that brings its user's token, without a session.

The user is who the API server says, and is answered what it lets the user see. Errors are Status
objects, as the API server's own.
"""
