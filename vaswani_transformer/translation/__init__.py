"""Text of any volume through a translator: lists of sentences, and files that are resumed where they were stopped."""
