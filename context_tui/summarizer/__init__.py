"""Summaries from live models over httpx, and the digest that needs none.

``prompt`` makes a request, ``payload`` what is sent of it (``masking`` last), ``settings`` an endpoint, and ``client``
calls it (import it late, as it loads httpx); ``reply`` checks that a reply is whole, ``checks`` what its summary says.
``extract`` is the offline way.
"""
