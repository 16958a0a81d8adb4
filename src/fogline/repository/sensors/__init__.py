"""What each sensor has read lately, and what a history knows of how sensors change."""
