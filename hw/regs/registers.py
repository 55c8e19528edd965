"""The map of the control space, and every register by name.

The control space is 64 KiB. Unmapped addresses answer DECERR.
"""

from .context import *  # noqa: F403
from .context import CONTEXT, WINDOW
from .device import *  # noqa: F403
from .device import COUNTER, DEVICE, EVENT, PMU
from .stream import *  # noqa: F403
from .stream import STREAM

REGISTER_MAP = (DEVICE, EVENT, PMU, COUNTER, STREAM, CONTEXT, WINDOW)
"""The whole control space, in order of addresses."""
