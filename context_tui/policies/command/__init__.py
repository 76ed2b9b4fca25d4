"""Policies that are programs, asked by JSON lines over standard input and output (docs/policy-command.md)."""
