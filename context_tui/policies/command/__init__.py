"""Policies that are programs: JSON lines over standard input and output, as in docs/policy-command.md."""
