"""From encoded sentence pairs to an averaged checkpoint: `engine.train` tells the story, every other file is one noun of it."""
