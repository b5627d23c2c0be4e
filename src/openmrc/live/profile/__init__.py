"""`openmrc bench profile`: where the processor time of a stream goes."""
