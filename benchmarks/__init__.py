"""Speed measured side by side: contestants that do the same work, by turns, in one process."""
