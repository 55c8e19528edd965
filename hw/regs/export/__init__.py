"""The registers and formats for people and other languages: Markdown, C and SystemRDL.

Everything is generated from the descriptions in `hw.regs`, for one configuration.
"""

from .document import markdown
from .header import c_header
from .rdl import systemrdl

__all__ = ["c_header", "markdown", "systemrdl"]
