"""How fast, how well and in how much memory a checkpoint translates, beside others."""
