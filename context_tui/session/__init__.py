"""The session model: facts, messages, turns, requests, epochs, and the context at any point."""
