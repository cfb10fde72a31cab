"""From sentence pairs to batches: corpora and cleaning, the tokenizer, token ids on disk, token-budget batches."""
