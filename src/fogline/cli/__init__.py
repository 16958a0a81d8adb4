"""What can be asked from a terminal?

Each command reads its options, calls one function of the package and prints what it returns. Fogline's own errors are
written for the person at the keyboard: they are printed as they are, with exit code 2 and no traceback. Where
more than half of the rows are rejected, a run and a dry run end with exit code 3.
"""

# each adds its commands
from fogline.cli import answer, check, explain, init, learn, rejects, serve, warm
from fogline.cli import demo as show
from fogline.cli import next as asking
from fogline.cli import run as watch
from fogline.cli.terminal import app

__all__ = ["answer", "app", "asking", "check", "explain", "init", "learn", "rejects", "serve", "show", "warm", "watch"]
