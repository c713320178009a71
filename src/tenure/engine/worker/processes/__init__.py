"""Handlers in processes of their own: for work that blocks, burns the processor, or can't be trusted to end.

`pool`    the worker's side: a few warm processes, each running one handler at a time
`child`   the process's main program
`wire`    what the two say to each other
"""
