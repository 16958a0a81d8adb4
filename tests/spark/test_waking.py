"""Do workers start beside what the caller does, and harm nothing where they cannot?"""

from fogline.spark.waking import wake


def test_workers_are_started_beside_other_work_and_a_session_that_has_ended_is_no_error(spark):
    thread = wake(spark)
    thread.join(60)
    assert not thread.is_alive()

    class Ended:
        def range(self, *_):
            raise RuntimeError("the session has ended")

    thread = wake(Ended())
    thread.join(60)
    assert not thread.is_alive()
