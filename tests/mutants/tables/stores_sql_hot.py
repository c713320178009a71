"""Deliberate bugs in `stores/sql/hot.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/hot.py"

MUTANTS = (
    Mutant(
        name="hot-deadline-late",
        what="The hot path lets a lease be settled 1 ms after its deadline.",
        breaks="§5 exact complements",
        edits=(
            Edit(
                "succeeds_plainly",
                "refusal(job, lease_seq, token, now)",
                "refusal(job, lease_seq, token, now - 1)",
                "domain/model/plain.py",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-every-lease-the-first",
        what="The hot path ends every job as if its first lease did.",
        breaks="§4 history, version",
        edits=(Edit("succeed", "if job.version == 2 and", "if job.version > 1 and"),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-forgets-children",
        what="The hot path ends a parent without telling its children.",
        breaks="§15",
        edits=(
            Edit(
                "plain",
                "if len(set(refs)) < len(refs) or not _tables(unit).childless(refs):",
                "if len(set(refs)) < len(refs):",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-forgets-last-error",
        what="A claim by the hot path wipes the last error of a job that was claimed before.",
        breaks="§4 last_error",
        edits=(Edit("_lease", "after = step.job", "after = replace(step.job, last_error=None)"),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-forgets-expiry",
        what="A job that may expire is leased like the others, and stays on the list of those that expire.",
        breaks="§4: a job that was ever claimed never expires",
        edits=(
            Edit(
                "claims_plainly",
                "(spec.expires_at is None or lease_seq > 0) and updated_at <= now",
                "updated_at <= now",
                "domain/model/plain.py",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-freed-group-unsaid",
        what="Nobody hears that a job which succeeded by the hot path has left its group.",
        breaks="§10.7: the end of a full limit sends a hint",
        edits=(Edit("_Succeeding.__init__", "spec.group is not None or _tables", "_tables"),),
        killers=("loops-postgres",),
        why="A hint may always come or be late: the machine never counts on one.",
    ),
    Mutant(
        name="hot-freed-place-unsaid",
        what=("Nobody hears that a job which succeeded by the hot path has left a place in a queue with a limit."),
        breaks="§10.7: the end of a full limit sends a hint",
        edits=(
            Edit(
                "_Succeeding.__init__",
                "is not None or _tables(unit).rules(spec.tenant, spec.queue).limit is not None",
                "is not None",
            ),
        ),
        killers=("loops-postgres",),
        why="A hint may always come or be late: the machine never counts on one.",
    ),
    Mutant(
        name="hot-group-stays-in-order",
        what="A job of a group that succeeded by the hot path stays the head of its group.",
        breaks="§11 ordered groups, fsck",
        edits=(
            Edit(
                "out_of_order",
                "if one.ended.spec.group is not None",
                "if one.ended.spec.group == ''",
                "stores/sql/bulk.py",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-group-of-the-first",
        what="Jobs of several groups count as one kind, and their claims all say the group of the first.",
        breaks="§12 group",
        edits=(
            Edit(
                "_lease",
                "spec.job_type, spec.group, spec.lease, spec.grace)",
                "spec.job_type, None, spec.lease, spec.grace)",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-holders-of-the-first",
        what="The claims of the hot path all say that their group has one holder.",
        breaks="§12 group_holders",
        edits=(Edit("_lease", "now - run_at, one.group_holders)", "now - run_at, one.group_holders and 1)"),),
        killers=("machine-sqlite",),
        why="DROP",
    ),
    Mutant(
        name="hot-keeps-edges",
        what="The hot path ends a child and leaves its edges.",
        breaks="§15 results of parents, purge",
        edits=(Edit("succeeds_plainly", "not job.spec.parents and job", "job", "domain/model/plain.py"),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-keeps-key",
        what="The hot path ends a job without freeing its key.",
        breaks="§9 active",
        edits=(Edit("succeed", "release_key(unit, spec, State.SUCCEEDED)", "spec.binding_key"),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-remembers-ended-job",
        what="The hot path leaves an ended job among the running ones it remembers.",
        breaks="terminal is terminal",
        edits=(
            Edit(
                "remember",
                "running.pop((job.spec.tenant, job.spec.id), None)",
                "running[job.spec.tenant, job.spec.id] = job",
                "stores/sql/bulk.py",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-retried-as-new",
        what="The hot path takes every job for one that was never claimed.",
        breaks="§4 attempts, lease_seq",
        edits=(Edit("_lease", "if job.version == 1 and", "if job.version > 0 and"),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-settles-twice",
        what="The hot path takes one token twice in a batch.",
        breaks="§5b: of two items with one token the second sees the first",
        edits=(
            Edit(
                "plain",
                "if len(set(refs)) < len(refs) or not _tables(unit).childless(refs):",
                "if not _tables(unit).childless(refs):",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-token-unchecked",
        what="The hot path compares neither the number of a lease nor its secret.",
        breaks="§5 token; §17 stale success",
        edits=(
            Edit(
                "succeeds_plainly",
                "refusal(job, lease_seq, token, now)",
                "refusal(job, job.lease_seq, job.token or token, now)",
                "domain/model/plain.py",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-number-of-the-first",
        what="Of jobs that one claim leased, only the first's number of a lease is compared.",
        breaks="§5 token; §17 stale success",
        edits=(
            Edit(
                "succeeds_alike",
                "job.lease_seq == other.lease_seq == lease_seq",
                "job.lease_seq == other.lease_seq",
                "domain/model/plain.py",
            ),
        ),
        killers=("conformance-sqlite",),
        why="the machine forges tokens one at a time",
    ),
    Mutant(
        name="hot-parents-of-the-first",
        what="Of jobs that one claim leased, only the first is asked for parents.",
        breaks="§15 edges go with their children's end",
        edits=(Edit("succeeds_alike", "and not job.spec.parents", "", "domain/model/plain.py"),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-waited-as-the-first",
        what="Jobs that one claim takes by the hot path all say that they waited as long as the first.",
        breaks="§12 waited_ms",
        edits=(Edit("_lease", "form.event(spec.id, now - run_at", "form.event(spec.id, now - form.like.run_at"),),
        killers=("machine-sqlite",),
    ),
)
