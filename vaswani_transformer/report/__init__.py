"""A run's results for readers: cards, curves, the run report, comparisons."""
