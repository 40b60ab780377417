"""Streams: datasets, the user's files, and how their samples are dealt to clients over time."""

from ofediq.streams.catalog import load
from ofediq.streams.dataset import Dataset, Truth
from ofediq.streams.partitioning import partition
from ofediq.streams.stream import Stream

__all__ = ["Dataset", "Stream", "Truth", "load", "partition"]
