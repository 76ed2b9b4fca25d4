"""One widget per file. Data reaches them by methods, what happens in them leaves as messages."""
