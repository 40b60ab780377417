"""Compiled code for what Python is slow at: the simulator's windows, and the entropy code.

The C source is part of the package. The simulator compiles it when first needed; the codec uses it where it is
already there, brought by the wheel or kept in the cache, and never makes a device wait for a compiler. Everything
runs without it, with the same results.
"""
