"""The lease of a hold, and its renewal."""
