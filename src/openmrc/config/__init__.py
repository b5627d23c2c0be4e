"""Forms of text that several packages read and write: YAML documents, JSON, HOST:PORT."""
