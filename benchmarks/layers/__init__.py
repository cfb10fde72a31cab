"""Table 1 of the paper, measured: what a layer of each type costs in time and memory, and how far a signal travels in it."""
