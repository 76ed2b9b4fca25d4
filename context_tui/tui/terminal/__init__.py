"""Terminal: cells, colours, keys, the clipboard and the output filter."""
