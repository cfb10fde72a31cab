"""Training under faults: killed, out of disk, damaged. What must come out is what comes out of a training that nothing disturbed."""
