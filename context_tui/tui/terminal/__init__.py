"""Terminal capabilities: cells, colours, keys, clipboard and output filter."""
