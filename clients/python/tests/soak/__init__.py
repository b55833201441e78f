"""The programs that clients/soak runs: see clients/scenarios/README.md."""
