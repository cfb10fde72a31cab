"""Transfer, measured: each task trained from scratch and from other models, with all of its training examples and with few."""
