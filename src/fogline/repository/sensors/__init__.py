"""What does history know of each sensor's own readings?"""
