"""The packages of the program, one module per kind; release/build calls them."""
