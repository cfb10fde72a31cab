"""From a checkpoint and a test set to a score: translate, compare, report."""
