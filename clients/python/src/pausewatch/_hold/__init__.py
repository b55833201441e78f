"""What keeps an elicitation open while its hold lives."""
