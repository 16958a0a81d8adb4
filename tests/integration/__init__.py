"""With real components: each of `components/` starts one, and skips with the command that would fetch it.

`make test-integration` runs all, `make test-integration SHORT=1` leaves out what is marked `whole`; `make test` runs none.
"""
