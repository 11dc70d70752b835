"""A world with known answers, real processes to run it through, and faults to inject on the way."""
