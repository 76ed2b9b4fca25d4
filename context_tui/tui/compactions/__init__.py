"""Screen of the recorded compactions, imported on first use."""
