"""Reader of a whole message, shown as a document."""
