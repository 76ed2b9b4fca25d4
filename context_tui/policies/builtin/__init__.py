"""Built-in policies: those of defect, koda and agent-sdk, a manual policy, and a chain of policies."""
