"""What the clients add to their bare stub."""
