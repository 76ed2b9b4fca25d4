"""A real llama.cpp HTTP server in this process, with a model of 135 million parameters.

usage: python server.py MODEL.gguf PORT [--ctx N] [--key KEY] [--grammar GBNF] [--ping SECONDS]

It serves /v1/messages and /v1/chat/completions. Prints one line when it listens; ends on SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading

import xllamacpp


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("port", type=int)
    parser.add_argument("--ctx", type=int, default=2048)
    parser.add_argument("--key")
    parser.add_argument("--grammar")
    parser.add_argument("--ping", type=int)
    options = parser.parse_args()

    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.port = options.port
    params.n_ctx = options.ctx
    params.n_parallel = 1
    # One thread: with as many as cores, any other program makes the spinning threads ten times slower.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_batch = 256  # a cancelled prompt is dropped between batches
    params.cache_ram_mib = 0  # else 8 GB
    if options.key:
        params.api_keys = [options.key]
    if options.ping is not None:
        params.sse_ping_interval = options.ping
    if options.grammar:
        grammar = xllamacpp.CommonGrammar()
        grammar.type, grammar.grammar = 1, options.grammar
        params.sampling.grammar = grammar
    server = xllamacpp.Server(params)
    print("listening", server.listening_address, flush=True)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    # A test run that dies takes its servers with it: this end of the pipe closes.
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
