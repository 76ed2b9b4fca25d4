"""Summaries from live models over httpx, and the digest that needs none.

``request`` is what is asked, ``payload`` what is sent of it (``masking`` last), ``apis`` what differs between APIs,
``settings`` finds an ``endpoint``, and ``client`` calls it (import it late, as it loads httpx). ``decoder`` makes
events of the bytes that come back, ``reply`` checks that they are a whole reply, and
``checks`` what its summary says.
``extract`` is the offline way.
"""
