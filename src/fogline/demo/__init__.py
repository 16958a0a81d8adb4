"""What does Fogline do, seen in half a minute and without any input?

`show` (`run`) learns from an earlier shift of a simulated mine (`mine`, `control_room`), streams the next one (`shift`)
through an engine (`engine`; on Spark, `spark_engine`), adds up the changes that it reports (`view`), draws them
(`display`) and ends with how near the answer came to the truth (`comparison`).
"""

from typing import TYPE_CHECKING

from fogline.face import offer

if TYPE_CHECKING:
    from fogline.demo.options import DemoOptions
    from fogline.demo.run import show

__all__ = ["DemoOptions", "show"]

offer(__name__, {"options": ("DemoOptions",), "run": ("show",)})
