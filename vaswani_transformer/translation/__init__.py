"""Translates and labels text of any volume: lists of sentences, and files, which resume where they stopped."""
