"""What is shown of a cluster: facts and sentences from its objects, for every interface alike.

No module here prints, knows a terminal or a page of the web, or asks the API server: the commands
give it what they listed, and the web interface what its caches have.
"""
