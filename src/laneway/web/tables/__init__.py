"""Tables that are filtered, sorted, grouped and paged on the server, by the query of the page."""
