"""Files that are whole or not there: folders and files written atomically, checksums, JSON, locks, compressed lines."""
