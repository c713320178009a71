"""Deliberate bugs in `stores/memory_tables.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/memory_tables.py"

MUTANTS = (
    Mutant(
        name="claim-by-arrival-only",
        what="Inside a priority jobs come by arrival, whatever their time.",
        breaks="H10: run_at before seq",
        edits=(
            Edit(
                "MemoryTables.line",
                "for _, run_at, _, ref in self._index.lines.get((lane[1], lane[0], group), ()):",
                (
                    "line = self._index.lines.get((lane[1], lane[0], group), ())\n"
                    "    for _, run_at, _, ref in sorted(line, key=lambda order: (order[0], order[2])):"
                ),
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-expired-taken",
        what="A job past its expiry is claimed.",
        breaks="H10: claims pass over it",
        edits=(Edit("MemoryTables.line", "if run_at <= now and not job.expired(now):", "if run_at <= now:"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-limit-ignores-draining",
        what="The limit of a queue does not count draining slots.",
        breaks="H6: a cancelled job drains",
        edits=(
            Edit(
                "MemoryTables.held",
                "return len(self._index.running.get(lane, ())) + draining",
                "return len(self._index.running.get(lane, ()))",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-priority-reversed",
        what="The lowest priority is served first.",
        breaks="H10: priority desc",
        edits=(
            Edit(
                "Indexes._line",
                "_in_lists(self.lines, place, (-job.priority, job.run_at, job.spec.seq, job.ref), adding)",
                "_in_lists(self.lines, place, (job.priority, job.run_at, job.spec.seq, job.ref), adding)",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-tenants-in-dictionary-order",
        what="Tenants come in dictionary order.",
        breaks="H10: byte order of the name",
        edits=(
            Edit("MemoryTables.tenants", "return sorted(found)[:limit]", "return sorted(found, key=str.lower)[:limit]"),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="feed-shows-other-tenants",
        what="A tenant sees the events of all.",
        breaks="H14",
        edits=(
            Edit(
                "MemoryTables.chunks",
                "return [chunk for chunk in self._chunks[start:] if chunk.tenant == tenant][:limit]",
                "return self._chunks[start : start + limit]",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="purge-keeps-key",
        what="A retained key outlives its purged job.",
        breaks="H9: freed when the record is purged",
        edits=(
            Edit(
                "MemoryTables._forget",
                "if job.key is not None:\n        del self._bindings[job.key]",
                "return",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="s17-11-resume-unseen",
        what="A document is written, but the rules worked out before it go on holding.",
        breaks="§17 missed wake-ups on the paths it does not list; readiness after a resume; H10, H6",
        edits=(
            Edit(
                "MemoryTables._put",
                'if family == "document":\n        self._rules.clear()',
                "return",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="traceback-outlives-its-job",
        what="A purged job's tracebacks stay.",
        breaks="§6: gone with the job",
        edits=(
            Edit(
                "MemoryTables._forget",
                "for name in ATTACHED:\n        self._attached.pop((name, job.ref), None)",
                "",
            ),
        ),
        killers=("machine-memory",),
    ),
)
