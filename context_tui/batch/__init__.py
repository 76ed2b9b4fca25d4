"""Sweeps over many files, in processes or on a cluster, with their rows in files."""
