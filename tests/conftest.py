"""What all tests share: property tests draw the same examples in every run, and a slow machine fails none."""

from hypothesis import settings

settings.register_profile("ofediq", deadline=None, derandomize=True)
settings.load_profile("ofediq")
