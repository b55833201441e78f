"""The edge to the network and to time: what differs between threads and an event loop, and what both need there."""
