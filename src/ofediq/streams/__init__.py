"""Streams: datasets, the user's files, and how their samples are dealt to clients over time.

samples      load (by name), load_file (CSV, Parquet, npz), load_own (as it comes), synthetic, or your own Dataset
a stream     partition: which client sees which sample at which step
features     ofediq.streams.features: what each client makes of its readings, online
changes      availability (join late, pause), drift
references   naive_references: what a method must beat
"""

from ofediq.streams.catalog import NAMES, Status, load, status
from ofediq.streams.changes import availability, drift
from ofediq.streams.dataset import Dataset, Task, Truth
from ofediq.streams.dealt import Dealt
from ofediq.streams.files import load_file
from ofediq.streams.generate import synthetic
from ofediq.streams.naive import APART, naive_references
from ofediq.streams.own import Own, load_own, usual_clients
from ofediq.streams.partitioning import KINDS, partition
from ofediq.streams.stream import Stream

__all__ = [
    "APART",
    "KINDS",
    "NAMES",
    "Dataset",
    "Dealt",
    "Own",
    "Status",
    "Stream",
    "Task",
    "Truth",
    "availability",
    "drift",
    "load",
    "load_file",
    "load_own",
    "naive_references",
    "partition",
    "status",
    "synthetic",
    "usual_clients",
]
