"""`openmrc demo`: hosts that write to each other under faults, and the verdict."""
