"""What can be asked from a terminal?

Each command reads its options, calls one function of the package and prints what it returns. Fogline's own errors are
written for the person at the keyboard: they are printed as they are, with exit code 2 and no traceback.
"""

from fogline.cli import answer, asking, check, explain, init, lab, learn, show, warm, watch  # each adds its commands
from fogline.cli.terminal import app

__all__ = ["answer", "app", "asking", "check", "explain", "init", "lab", "learn", "show", "warm", "watch"]
