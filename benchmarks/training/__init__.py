"""How fast an optimisation update is, and in how much memory, beside others."""
