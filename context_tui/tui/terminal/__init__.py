"""Terminal features: cells, colours, keys, clipboard and the filter of its output."""
