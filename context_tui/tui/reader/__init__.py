"""The reader: a message in full, as a document."""
