"""Summaries written by a language model over HTTP, and rule-based extracts that need no model.

``request`` builds the request, and ``payload`` encodes it with secrets masked. ``settings`` resolves an ``endpoint``,
which ``client`` calls (import it late: it loads httpx). ``decoder`` turns the response into events, ``reply`` checks
that they are complete, and ``checks`` examines the summary. ``extract`` needs no model.
"""
