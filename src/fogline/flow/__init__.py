"""Which stages does a row of a pipeline go through, whatever engine carries it? No PySpark in here."""
