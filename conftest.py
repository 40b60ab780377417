"""What pytest leaves alone: modules around packages that are not installed here."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("flwr") else ["src/ofediq/flower", "tests/flower/federation.py"]
