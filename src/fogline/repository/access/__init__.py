"""By which way are the rows of the history found that are close to a row?"""
