"""GNMT's length penalty for engines that have only a power of the length."""

GNMT_AS_POWER = 20 / (5 + 20)
"""Of GNMT's exponent: where an engine has only `length^p`, this power grows at 20 tokens as `((5 + length) / 6)^p` does."""
