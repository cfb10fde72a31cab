"""A translator as a web page: what it translates, what the page shows, and what a stranger may ask of the server."""
