"""`openmrc bench profile`: distribution of a stream's processor time."""
