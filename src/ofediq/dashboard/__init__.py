"""The live page of a federation."""
