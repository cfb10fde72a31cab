"""From encoded sentence pairs to an averaged checkpoint: `engine.train` holds the whole sequence, every other file one part of it."""
