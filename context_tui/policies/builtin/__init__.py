"""Built-in policies: those of defect, koda and agent-sdk, the marks set by hand, and a chain of others."""
