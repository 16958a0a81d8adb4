"""Which rows can still matter, which keep which out, and which are in?"""
