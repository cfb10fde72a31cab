"""The built-in corpus: English-German sentence pairs from a grammar, for a first run without a download."""
