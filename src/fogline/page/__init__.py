"""A local web page that shows what a run writes: the answer live, why each row is in it, and what to measure next.

It reads the output folder alone, before, during or after a run: `store` follows it, `past` reads older instants,
`app` gives both to browsers, and `serving` starts it. Starlette and uvicorn are an extra: `fogline[page]`.
"""
