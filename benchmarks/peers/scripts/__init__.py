"""What runs inside a peer's own environment: NumPy and the peer, nothing of ofediq."""
