"""Which columns come beside the rows of files? Where a row was read, and why it cannot be."""

from __future__ import annotations

import pyarrow as pa

CORRUPT = "_corrupt_record"  # the text of a line that cannot be read, else null; Spark's own readers have it, too
WHY = "_fogline_why"  # why the line, or the whole file, cannot be read, else null
FILE = "_fogline_file"  # the file's name, as seen from the stream's path
LINE = "_fogline_line"  # the number of the line from 1 on, null where it is not known

ORIGIN = pa.schema([(CORRUPT, pa.string()), (WHY, pa.string()), (FILE, pa.string()), (LINE, pa.int64())])
