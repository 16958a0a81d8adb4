"""What are the files and folders of an output called?"""

from __future__ import annotations

ABOUT = "about.json"
CHECKPOINT = "checkpoint"
MARK = f"{CHECKPOINT}/fogline.json"
REPOSITORIES = "repositories"  # in about.json: those that the run has had, the last one it has
ANSWERS = "answers"
ALARMS = "alarms.json"  # groups that are near a limit
CHANGES, REJECTS, HEALTH = KINDS = ("changes", "rejects", "health")
SCORES = "scores"  # a column of health: of values that were hidden for a moment, as JSON (`fogline.impute.scores`)
NEAR, NEXT = VIEWS = ("near", "next")  # folders of a run with --explain: what the page and `fogline next` show
HERE = "its own folder"  # among the sinks that a run was begun with
