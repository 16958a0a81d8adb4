"""With real components: each of `components/` starts one, and skips with the command that would fetch it.

`make test-integration` runs all, with `SHORT=1` all but what is marked `whole`; `make test` runs none of them.
"""
