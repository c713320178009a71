"""A light process that keeps the leases of worker processes, and ends those that hang.

The **child** claims, runs and settles. It tells the **supervisor** of every lease before its handler starts. The
supervisor renews over a connection of its own, so neither a blocked event loop nor a handler that holds the GIL costs a
lease. What the child must know even while it can't read, until when each lease is certainly its own, is in memory that
both share; it looks there before it settles and whenever it wakes.

`wire`        what the two say to each other, and the memory they share
`link`        the child's side
`child`       the child's main program
`supervisor`  the other side
"""
