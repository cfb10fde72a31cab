"""What a run tells people: cards, curves, the run report, comparisons."""
