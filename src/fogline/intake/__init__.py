"""Which rows of a call count, and what comes of them to each group?"""
