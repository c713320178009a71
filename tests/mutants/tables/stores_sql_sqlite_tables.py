"""Deliberate bugs in `stores/sql/sqlite/tables.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/sqlite/tables.py"

MUTANTS = (
    Mutant(
        name="hot-leases-a-mixed-line-alike",
        what="Jobs that one claim takes share what the first of them has.",
        breaks="§4 record",
        edits=(
            Edit("SqliteTables._lease", "if count == 1 or any(other != first for other in others):", "if count == 1:"),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="neutral-reordered-writes",
        what="No behaviour changes: independent tables are written in another order.",
        breaks="nothing",
        edits=(Edit("SqliteTables.keep", "in rows.ROWS.items()", "in reversed(rows.ROWS.items())"),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="s17-07-pop-without-running",
        what="A claim takes the job out of `ready` and never writes it to `running`.",
        breaks="§17 crash between pop and state write loses the job; lost leases and repeated claims",
        edits=(
            Edit(
                "SqliteTables._lease_each",
                'self.many("put_running", [row for leased in taken for row in bulk.running_rows(leased)])',
                "",
            ),
            Edit(
                "SqliteTables._lease",
                'self.run("lease_range", *lane, *first[3:])\n        left',
                "left",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="s17-11-enqueue-not-indexed",
        what="A new job with labels is never put in line.",
        breaks="§17 missed wake-ups on the paths it does not list; readiness on this path",
        edits=(
            Edit(
                "SqliteTables._keep_jobs",
                "for table, row in goes_to:",
                (
                    "for table, row in goes_to:\n"
                    '            if table in ("ready", "scheduled") and before is None and job.spec.labels:\n'
                    "                continue"
                ),
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="s17-11-lost-not-indexed",
        what="A job whose lease was lost is never put in line again.",
        breaks="§17 missed wake-ups on the paths it does not list; readiness on this path",
        edits=(
            Edit(
                "SqliteTables._keep_jobs",
                "for table, row in goes_to:",
                (
                    "for table, row in goes_to:\n"
                    '            if table in ("ready", "scheduled") and job.history and job.history[-1].outcome == '
                    '"lease_lost":\n'
                    "                continue"
                ),
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="s17-11-release-not-indexed",
        what="A released job is never put in line again.",
        breaks="§17 missed wake-ups on the paths it does not list; readiness on this path",
        edits=(
            Edit(
                "SqliteTables._keep_jobs",
                "for table, row in goes_to:",
                (
                    "for table, row in goes_to:\n"
                    '            if table in ("ready", "scheduled") and job.history and job.history[-1].outcome == '
                    '"released":\n'
                    "                continue"
                ),
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="s17-11-retry-not-indexed",
        what="A job that is retried is never put in line.",
        breaks="§17 missed wake-ups on the paths it does not list; readiness on this path",
        edits=(
            Edit(
                "SqliteTables._keep_jobs",
                "for table, row in goes_to:",
                (
                    "for table, row in goes_to:\n"
                    '            if table in ("ready", "scheduled") and job.history and job.history[-1].outcome == '
                    '"retry_scheduled":\n'
                    "                continue"
                ),
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="s17-11-unblock-not-indexed",
        what="An unblocked job is never put in line.",
        breaks="§17 missed wake-ups on the paths it does not list; readiness on this path",
        edits=(
            Edit(
                "SqliteTables._keep_jobs",
                "for table, row in goes_to:",
                (
                    "for table, row in goes_to:\n"
                    '            if table in ("ready", "scheduled") and before is not None and before.state is '
                    "State.BLOCKED:\n"
                    "                continue"
                ),
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-cached-job-not-forgotten",
        what="A running job that another process changed is read from memory.",
        breaks="§17 renewal writes back a stale record; several processes on one file",
        edits=(Edit("SqliteTables.begin", "if rolled_back or version != self._data_version:", "if rolled_back:"),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-demote-missing",
        what="A clock that goes back leaves jobs in `ready` that are not due.",
        breaks="§2 time, §11a wake_after",
        edits=(
            Edit(
                "SqliteTables.promote",
                ('if now < self._promoted:\n        self.run("demote", now)\n        self.run("demoted", now)'),
                "if now < self._promoted:",
            ),
        ),
        killers=("conformance-sqlite",),
        why=(
            "needs an empty claim and a clock that goes back past it before anything is written: four rare "
            "steps in a row"
        ),
    ),
    Mutant(
        name="sql-drop-running-omitted",
        what="A job that succeeded by the hot path goes on holding its place.",
        breaks="§11 limits, fsck",
        edits=(
            Edit(
                "SqliteTables._finish",
                (
                    'self.many("put_finished", single)\n'
                    '    self.connection.execute(SQL["end_running"], (rows.json_text(ended),))'
                ),
                'self.many("put_finished", single)',
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-feed-gap",
        what="Positions of the feed have gaps.",
        breaks="§12 dense feed, fsck",
        edits=(Edit("SqliteTables._keep_meta", "head += len(chunks)", "head += len(chunks) + 1"),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-finished-not-written",
        what="A job that succeeded by the hot path is not in the list that purge reads.",
        breaks="§4 purge, fsck",
        edits=(
            Edit(
                "SqliteTables._finish",
                'self.run("finish_alike", rows.json_text(seqs), day, live)',
                "pass",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-held-of-one-group",
        what="The limit of a queue counts jobs without a group only.",
        breaks="§11 limit",
        edits=(
            Edit(
                "SqliteTables.held",
                "return sum(self._holding().get(lane, {}).values())",
                'return self._holding().get(lane, {}).get("", 0)',
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-leave-misses-scheduled",
        what="A job whose time has come while it stood in `scheduled` is not taken from there.",
        breaks="places, fsck",
        edits=(
            Edit(
                "SqliteTables._leave",
                (
                    'if table == "ready" and dropped < len(left_rows):\n'
                    '            self.many("drop_scheduled", [key_of("scheduled", row) for row in left_rows])'
                ),
                "assert dropped >= 0",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-mark-not-kept",
        what="The high-water mark of the clock is not written.",
        breaks="§2 time stands still",
        edits=(
            Edit(
                "SqliteTables._keep_meta",
                "self._meta = replace(meta, feed_head=head, mark=max(meta.mark, unit.now))",
                "self._meta = replace(meta, feed_head=head)",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-promote-copies",
        what="Jobs that became due are in `ready` and stay in `scheduled`.",
        breaks="§11a, fsck",
        edits=(
            Edit(
                "SqliteTables.promote",
                ('if self._changed("promote", *values):\n            self.run("promoted", *values)'),
                'if self._changed("promote", *values):',
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-renew-keeps-deadline",
        what="A renewal does not reach the column that sweep scans, and sweep does not check again.",
        breaks="§4 sweep: re-checked inside the write",
        edits=(
            Edit(
                "SqliteTables._keep_jobs",
                'writes["put_running"].append(rows.running_row(job))',
                (
                    "kept = job if before is None or before.lease is None else before\n"
                    '            writes["put_running"].append((*rows.running_row(job)[:5], '
                    "rows.running_row(kept)[5], records.live_blob(job)))"
                ),
            ),
            Edit(
                "_lose",
                "token and job.lease is not None and job.lease.expired(unit.now)",
                "token",
                "domain/model/sweep.py",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-restore-without-labels",
        what="A transfer loses labels.",
        breaks="§5c dump and load",
        edits=(
            Edit(
                "SqliteTables.restore_job",
                ('self.run("restore_body", seq)\n    self.many("add_label", labels(job.spec))'),
                'self.run("restore_body", seq)',
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-restore-without-places",
        what="A transferred job is in the record and nowhere in line.",
        breaks="§5c dump and load",
        edits=(
            Edit(
                "SqliteTables.restore_job",
                (
                    'self.run("put_finished", *rows.finished_row(job))\n'
                    "    for table, row in waiting(job, border=-1):\n"
                    '        self.run(f"put_{table}", *row)'
                ),
                'self.run("put_finished", *rows.finished_row(job))',
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-turn-not-kept",
        what="Priority or time of a job that was changed and ended in one call are the old ones.",
        breaks="§4 record",
        edits=(
            Edit(
                "SqliteTables._save", 'writes["save_turn"].append((*turn, job.spec.seq))', 'writes["save_turn"] += []'
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="sql-load-again-loses-rows-beside",
        what="A record that is loaded once more takes what lies beside it away.",
        breaks="§5c: a load may be repeated",
        edits=(
            Edit(
                "SqliteTables.restore_job",
                'for table in ("label", "running", "finished", *WAITING):',
                'for table in ("job", "label", "running", "finished", *WAITING):',
            ),
        ),
        killers=("conformance-sqlite",),
        why="what the machine loads once more is the whole dump",
    ),
    Mutant(
        name="sql-purge-keeps-key",
        what="A retained key outlives its purged job.",
        breaks="§9 retained",
        edits=(Edit("SqliteTables._purge", "if job.key is not None", "if job.key is None"),),
        killers=("machine-sqlite",),
    ),
)
