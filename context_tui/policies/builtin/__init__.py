"""Built-in policies written in Python: those of the defect, koda and agent-sdk runtimes, a manual one and a chain."""
