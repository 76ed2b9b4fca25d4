"""What the terminal can do: cells, colours, keys, clipboard and the filter of its output."""
