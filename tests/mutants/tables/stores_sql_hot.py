"""Deliberate bugs in `stores/sql/hot.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/hot.py"

MUTANTS = (
    Mutant(
        name="hot-deadline-late",
        what="The hot path lets a lease be settled 1 ms after its deadline.",
        breaks="§5 exact complements",
        edits=(Edit("plain", "lease.grace or now", "lease.grace + 1 or now"),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-every-lease-the-first",
        what="The hot path ends every job as if its first lease did.",
        breaks="§4 history, version",
        edits=(Edit("succeed", "if job.version == 2:", "if job.version > 1:"),),
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
        what="A claim by the hot path wipes the last error.",
        breaks="§4 last_error",
        edits=(Edit("_again", "job.last_error,", "None,"),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-forgets-that-a-claim-ends-expiry",
        what=(
            "A released job that once had an expiry goes the model's way although it stands in the line "
            "like the others."
        ),
        breaks="§10, the whole claim breaks",
        edits=(
            Edit(
                "_lease",
                "if (spec.expires_at is not None and job.lease_seq == 0) or now < job.updated_at:",
                "if spec.expires_at is not None or now < job.updated_at:",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-freed-group-unsaid",
        what="Nobody hears that a job which succeeded by the hot path has left its group.",
        breaks="§10.7: the end of a full limit sends a hint",
        edits=(
            Edit(
                "succeed",
                ("if spec.group is not None:\n            freed.add(spec.queue)"),
                "if spec.group is not None:",
            ),
        ),
        killers=("loops-postgres",),
        why="A hint may always come or be late: the machine never counts on one.",
    ),
    Mutant(
        name="hot-freed-place-unsaid",
        what=("Nobody hears that a job which succeeded by the hot path has left a place in a queue with a limit."),
        breaks="§10.7: the end of a full limit sends a hint",
        edits=(
            Edit(
                "succeed",
                (
                    "_tables(unit).ways.took(Way.SETTLE_HOT)\n"
                    "            if _tables(unit).rules(spec.tenant, spec.queue).limit is not None:\n"
                    "                freed.add(spec.queue)"
                ),
                "_tables(unit).ways.took(Way.SETTLE_HOT)",
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
                "succeed",
                "moves.out_of_order.append((spec.queue, spec.tenant, spec.group, seq))",
                "moves.out_of_order.clear()",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-group-unnamed",
        what="The claims of the hot path say no group.",
        breaks="§12 group",
        edits=(
            Edit(
                "_Leasing.__init__",
                'self.group = "" if group is None else f\',"group":{rows.json_text(group)}\'',
                'self.group = ""',
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-group-unquoted",
        what="A group's name goes into an event as it is, quotes and all.",
        breaks="§12: events are JSON",
        edits=(
            Edit(
                "_Leasing.__init__",
                'self.group = "" if group is None else f\',"group":{rows.json_text(group)}\'',
                'self.group = "" if group is None else f\',"group":"{group}"\'',
            ),
        ),
        killers=("conformance-sqlite",),
        why="the groups of the machine have plain names",
    ),
    Mutant(
        name="hot-keeps-edges",
        what="The hot path ends a child and leaves its edges.",
        breaks="§15 results of parents, purge",
        edits=(Edit("plain", ("return None\n        if spec.parents:\n            return None"), "return None"),),
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
        edits=(Edit("succeed", "running.pop((spec.tenant, name), None)", "running[spec.tenant, name] = job"),),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-retried-as-new",
        what="The hot path takes every job for one that was never claimed.",
        breaks="§4 attempts, lease_seq",
        edits=(Edit("_lease", "if job.version == 1:", "if job.version > 0:"),),
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
                "plain",
                "if job.lease_seq != token.lease_seq or job.token != hashed:",
                "if job.lease_seq < token.lease_seq:",
            ),
        ),
        killers=("machine-sqlite",),
    ),
    Mutant(
        name="hot-waited-from-run-at",
        what="The hot path counts waiting from run_at, whatever ran since.",
        breaks="§12 waited_ms",
        edits=(
            Edit(
                "_lease", "since = max(run_at, job.history[-1].ended_at) if job.history else run_at", "since = run_at"
            ),
        ),
        killers=("machine-sqlite",),
    ),
)
