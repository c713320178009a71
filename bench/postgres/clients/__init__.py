"""Each queue as its users would call it, in processes and an environment of its own; they share no more than `shell`.

Nothing here imports more than the standard library and the queue itself, since each runs where only that is installed.
"""
