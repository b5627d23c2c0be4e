"""Alternative transports beside MRC on the same running fabric, with the same faults."""
