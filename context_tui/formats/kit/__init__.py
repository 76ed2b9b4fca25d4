"""What readers and writers are made of: lines, documents and databases, the message builder, values, writing."""
