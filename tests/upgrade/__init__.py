"""The upgrade campaign: a store that an earlier Tenure wrote is migrated while programs of both versions work on it.

`bases`     the earlier versions, from git's history     `plan`     what is run, and where the store is
`jobs`      what the earlier version puts in             `actor`    one process, of either version
`company`   the processes, as the campaign sees them     `reading`  everything in a store, field by field
`campaign`  runs them, migrates, and judges

What an actor imports from here runs with the earlier version's package too: it uses only what both have.
"""
