"""The page beside a run, in a process of its own: see `serving.beside`."""

import sys

from fogline.page.serving import as_child

if __name__ == "__main__":
    as_child(sys.argv[1])
