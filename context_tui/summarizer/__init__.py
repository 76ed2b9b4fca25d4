"""Summaries from live models over httpx, and the digest that needs none.

``request`` builds the request, and ``payload`` its bytes, with secrets masked. ``settings`` finds an ``endpoint``, which
``client`` calls (import it late: it loads httpx). ``decoder`` turns the bytes of the answer into events, ``reply``
checks that they are complete, and ``checks`` examines the summary. ``extract`` needs no model.
"""
