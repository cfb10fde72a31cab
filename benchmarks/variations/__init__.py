"""The paper's Table 3 at a small size: every variation of the architecture trained for one budget, beside the paper's own figures."""
