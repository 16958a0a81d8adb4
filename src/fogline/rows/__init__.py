"""What came in, and what goes out? The border: tables in, tables out."""
