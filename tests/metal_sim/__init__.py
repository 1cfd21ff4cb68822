"""Runs Metal kernels and Metal host code on Linux, under checks stricter than a GPU's. See README.md in this folder."""
