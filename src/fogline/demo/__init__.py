"""What does Fogline do, seen in half a minute and without any input?

`show` (`play`) learns from an earlier shift of a simulated mine (`mine`, `room`), streams the next one (`shift`)
through an engine (`engine`; on Spark, `stream`), adds up what that tells (`watch`), draws it (`screen`) and ends with
how near the answer came to the truth (`score`).
"""

from fogline.demo.play import Plan, show

__all__ = ["Plan", "show"]
