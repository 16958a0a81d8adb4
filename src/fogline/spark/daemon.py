"""Where do Python workers come from?

Spark forks them from a daemon. This one has read Fogline before it forks, so that no worker has to: a second and a
hundred megabytes each. Spark is told by `spark.python.daemon.module`; without that, workers import what they need.
"""

from pyspark.daemon import manager

import fogline.spark.census
import fogline.spark.fitting
import fogline.spark.imputing
import fogline.spark.pipeline
import fogline.spark.source  # noqa: F401

if __name__ == "__main__":
    manager()
