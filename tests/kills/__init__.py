"""The kill campaign: several processes on one SQLite file or one PostgreSQL server, some of them killed with SIGKILL
again and again, and the server too.

`plan` what is run   `jobs` what is enqueued   `producer`, `worker` the processes   `campaign` runs and kills them
`audit` follows the feed and judges   `recovery` how soon work went on
"""
