"""Sweeps over many files, in processes or on a cluster, with rows kept in files."""
