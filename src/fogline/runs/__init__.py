"""How does a run start, go on and end? In this process; `spark/` has what Spark needs beside it."""
