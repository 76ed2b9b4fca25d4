"""Aftermath: what an agent did after the recorded compactions of its context, compared with other points."""
