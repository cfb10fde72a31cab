"""Time and memory of training and translating against the length of the texts."""
