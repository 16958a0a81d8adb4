"""Do workers start beside what the caller does, and harm nothing where they cannot?"""

import threading

from fogline.spark.partitions import wake


def test_a_job_of_python_workers_runs_beside_other_work(spark):
    before = set(spark.sparkContext.statusTracker().getJobIdsForGroup(None))
    thread = wake(spark)
    thread.join(60)
    assert not thread.is_alive()
    assert set(spark.sparkContext.statusTracker().getJobIdsForGroup(None)) > before


def test_a_session_that_has_ended_is_no_error(monkeypatch):
    class Ended:
        def range(self, *_):
            raise RuntimeError("the session has ended")

    raised = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    wake(Ended()).join(60)
    assert raised == []
