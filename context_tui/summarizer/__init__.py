"""Summaries from live models over httpx, and the digest that needs none.

``prompt`` makes requests, ``settings`` endpoints, ``client`` calls them (and is the one to import late, as it loads
httpx); ``extract`` is the offline way, ``checks`` looks at what came, ``secrets`` at what would be sent.
"""
