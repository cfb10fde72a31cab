"""Every claim of the paper that a measurement can speak to, beside what the other benchmarks found."""
