from .desc import TaskDesc
from .graph import Graph
from .replay import Replay

__all__ = ["Graph", "Replay", "TaskDesc"]
