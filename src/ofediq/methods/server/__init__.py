"""Server rules: what the server does with the updates that arrived.

rule         the bases; descent, optax's transformations
fingerprint  telling two transformations apart
coin         without a step size: bets on the sign of the next gradient
adaptive     without a step size: the sum of two learners
averaged     for noisy sums: an average of where Adam's steps led
timed        for windows of different lengths
shifted      for updates that are differences from something that the server knows
"""
