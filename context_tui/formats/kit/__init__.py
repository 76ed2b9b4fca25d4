"""Tools shared by readers and writers: lines, documents and databases, the message builder, values, writing."""
