"""What all tests share: property tests draw the same examples in every run, and a slow machine fails none."""

import signal

from hypothesis import settings

settings.register_profile("ofediq", deadline=None, derandomize=True)
settings.load_profile("ofediq")

# A shell starts what runs in its background with Ctrl-C ignored; tests of interruptions need it heard.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
