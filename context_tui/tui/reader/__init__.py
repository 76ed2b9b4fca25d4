"""The reader: a message, or several, as a document."""
