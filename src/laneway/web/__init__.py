"""The web interface: pages rendered on the server, live, with the rights of the user who signed in.

A page is a function from what the caches hold to the values of a template; the same function makes
the page and, after a change, the parts of it that changed. What is decided about devices is decided
in the layers below, for the commands and for admission as well: nothing here holds a rule of its
own. Whatever a user changes is written with the user's own token.
"""
