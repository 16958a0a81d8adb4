"""What does Fogline do, seen in half a minute and without any input?

`show` (`run`) learns from an earlier shift of a simulated mine (`mine`, `control_room`), streams the next one (`shift`)
through an engine (`engine`; on Spark, `spark_engine`), adds up the changes that it reports (`view`), draws them
(`display`) and ends with how near the answer came to the truth (`comparison`).
"""

from fogline.demo.run import DemoOptions, show

__all__ = ["DemoOptions", "show"]
