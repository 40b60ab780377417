"""Streams: datasets, the user's files, and how their samples are dealt to clients over time.

samples      load (by name), load_file (CSV, Parquet, npz), load_own (as it comes), synthetic, or your own Dataset
a stream     partition: which client sees which sample at which step
features     ofediq.streams.features: what each client makes of its readings, online
changes      availability (join late, pause), drift
references   naive_references: what a method must beat
"""

from ofediq.lazy import public
from ofediq.streams.catalog import NAMES as NAMES
from ofediq.streams.catalog import Status as Status
from ofediq.streams.catalog import load as load
from ofediq.streams.catalog import status as status
from ofediq.streams.changes import availability as availability
from ofediq.streams.changes import drift as drift
from ofediq.streams.dataset import Dataset as Dataset
from ofediq.streams.dataset import Task as Task
from ofediq.streams.dataset import Truth as Truth
from ofediq.streams.dealt import Dealt as Dealt
from ofediq.streams.files import load_file as load_file
from ofediq.streams.generate import synthetic as synthetic
from ofediq.streams.naive import APART as APART
from ofediq.streams.naive import naive_references as naive_references
from ofediq.streams.own import Own as Own
from ofediq.streams.own import load_own as load_own
from ofediq.streams.own import usual_clients as usual_clients
from ofediq.streams.partitioning import KINDS as KINDS
from ofediq.streams.partitioning import partition as partition
from ofediq.streams.stream import Stream as Stream

__all__ = public(globals())
