"""Out into other engines, and in from other toolkits: the same function in another's files."""
