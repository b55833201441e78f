"""The player: a program that does with this library what the stage of `clients/scenarios` tells it to.

One set of operations serves both clients, since they have the same names: see `styles`.
"""
