"""The command `openmrc`: one module per command, imported when it is called."""
