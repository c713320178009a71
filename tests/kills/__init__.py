"""The kill campaign: several processes on one SQLite file, some of them killed with SIGKILL again and again.

`plan` what is run   `jobs` what is enqueued   `producer`, `worker` the processes   `campaign` runs and kills them
`audit` follows the feed and judges
"""
