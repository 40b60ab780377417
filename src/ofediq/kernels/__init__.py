"""Compiled code for what Python is slow at: the simulator's windows, reading messages, and adding them up.

The C source is part of the package. The simulator compiles it when first needed, and so does the server of a large
fleet, in the background; the codec uses it where it is already there, brought by the wheel or kept in the cache, and
never makes a device wait for a compiler. Everything runs without it, with the same results.
"""
