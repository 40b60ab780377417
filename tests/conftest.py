"""What all tests share: property tests draw the same examples in every run, and a slow machine fails none."""

import atexit
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

# Before JAX is there to read it. Most of the time of the tests is compilation, and many run the same programs: all
# of one run, workers and commands included, share what is compiled. Nothing is left for the next run.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="ofediq-programs-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
# Most programs run for milliseconds once they are compiled for seconds: the machine code is left as it comes, here
# and in the commands that tests start. `tests/simulation/test_engine_against_reference.py` runs what users run.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
if os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] == "1" and version("jaxlib").startswith("0.10."):
    # An XLA that does not know a flag ends the process.
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")

import jax
import pytest
from hypothesis import settings

settings.register_profile("ofediq", deadline=None, derandomize=True)
settings.load_profile("ofediq")

_MANY_MAPS = 25_000

# A shell starts what runs in its background with Ctrl-C ignored; tests of interruptions need it heard.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module", autouse=True)
def few_programs() -> Iterator[None]:
    """Every program that JAX compiles keeps its memory maps; beyond the 65,530 of a process it dies."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > _MANY_MAPS:
        jax.clear_caches()


@pytest.fixture(autouse=True)
def quiet_logs() -> Iterator[None]:
    """A command that runs in this process sets up the package's log; the next test finds it as it was."""
    log = logging.getLogger("ofediq")
    before = (log.handlers[:], log.level, log.propagate)
    yield
    log.handlers, log.level, log.propagate = before
