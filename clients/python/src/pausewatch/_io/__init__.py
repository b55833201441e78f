"""Access to the network and to time: the parts that differ between threads and an event loop, and their shared parts."""
