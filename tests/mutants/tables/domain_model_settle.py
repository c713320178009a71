"""Deliberate bugs in `domain/model/settle.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/model/settle.py"

MUTANTS = (
    Mutant(
        name="cancel-any-settle-frees-slot",
        what="Any refused settle of a cancelled job frees its slot, though the handler may still run.",
        breaks="H6: release alone confirms",
        edits=(
            Edit(
                "_settle_one",
                "if isinstance(refused, JobCancelled) and isinstance(outcome, Release):",
                "if isinstance(refused, JobCancelled):",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="cancel-release-frees-no-slot",
        what="The release of a cancelled job does not free its slot.",
        breaks="H6: the worker confirms with release",
        edits=(Edit("_confirm_drained", "unit.free(slot)", "return"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="carried-not-undone",
        what="A success that is refused for a job it carries has ended the job all the same.",
        breaks="H12, H2: a refused item changes nothing",
        edits=(
            Edit(
                "_succeed_carrying",
                ("if refused is not None:\n        unit.restore(before)"),
                "if refused is not None:",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="lease-renew-hides-cancel",
        what="The answer to a renewal never tells that a cancel was requested.",
        breaks="H8: the reply carries cancel_requested",
        edits=(
            Edit(
                "_renew_one",
                "return Renewed(job.lease.until if job.lease else unit.now, job.cancel_requested)",
                "return Renewed(job.lease.until if job.lease else unit.now, False)",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="s17-10-slot-counter",
        what="A draining slot is a count: releasing a cancelled job once more frees another slot.",
        breaks="§17 counter decremented twice lets limit 1 run many; H6",
        edits=(
            Edit(
                "_confirm_drained",
                ("slot = unit.slot(token.ref)\n    if slot is not None and slot.lease_seq == token.lease_seq:"),
                (
                    "slot = unit.slot(token.ref) or next(iter(unit.tables.drained(1 << 60, 1)), None)\n"
                    "    if slot is not None:"
                ),
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="traceback-of-a-refused-settle",
        what="A settle that is refused leaves its traceback behind all the same.",
        breaks="§6: in the same operation as the settle that tells it",
        edits=(
            Edit(
                "_settle_one",
                "refused = refusal(job, token.lease_seq, hashed, unit.now, outcome.tag)",
                (
                    "refused = refusal(job, token.lease_seq, hashed, unit.now, outcome.tag)\n"
                    "    if job is not None and _traceback_of(outcome) is not None:\n"
                    "        unit.attach(TRACEBACKS, job.ref, member(token.lease_seq), _traceback_of(outcome))"
                ),
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="traceback-of-the-last-failure-only",
        what="An attempt that will be tried again keeps no traceback.",
        breaks="§6: a retry or fail may carry one",
        edits=(
            Edit(
                "_traceback_of",
                "return outcome.traceback if isinstance(outcome, Retry | Fail) else None",
                "return outcome.traceback if isinstance(outcome, Fail) else None",
            ),
        ),
        killers=("machine-memory",),
    ),
)
