"""What pytest leaves alone: modules around packages that are not installed here."""

from importlib.util import find_spec

import ofediq.models  # noqa: F401  # pytest would make its modules twice if it met one before their package

collect_ignore = [] if find_spec("flwr") else ["src/ofediq/flower", "tests/flower/federation.py"]
