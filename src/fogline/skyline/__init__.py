"""Who can still matter, who keeps whom out, and who is in?"""
