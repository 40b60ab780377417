"""The protocol without I/O: messages and times in, messages and actions out."""
