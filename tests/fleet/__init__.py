"""The fleet: whole workers, supervisors and children, killed again and again; nothing may be lost or settled twice.

`app`       the jobs, and a store that writes down every call its process makes
`worker`    one worker: a supervisor with its children
`campaign`  starts them, kills them, judges
"""
