"""Sweeps over many files, run in several processes or on a cluster, with results in files."""
