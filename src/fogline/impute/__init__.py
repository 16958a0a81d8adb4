"""What came in, and what may it mean? Row -> bounds -> cloud."""
