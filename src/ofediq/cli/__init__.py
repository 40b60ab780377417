"""The command line: parse, call, render. What it computes lives in the other rooms.

A new command is one module with one function, and one line in `app.py`. It imports its room inside the function,
so that `ofediq --help` loads none of them.
"""
