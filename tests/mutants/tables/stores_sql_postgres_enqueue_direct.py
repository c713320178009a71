"""Deliberate bugs in `stores/sql/postgres/enqueue_direct.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/enqueue_direct.py"
FORMS = "stores/forms.py"
PLAIN = "domain/model/plain.py"

MUTANTS = (
    Mutant(
        name="arrive-alike-due-as-enqueued",
        what="The event of a job that is due later says that it is due at once.",
        breaks="§12 run_at",
        edits=(Edit("EnqueueForm.__init__", "(NOW_MARK, DUE_MARK) if", "(NOW_MARK, NOW_MARK) if", FORMS),),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="arrive-alike-fingerprints-run-on",
        what="A job's fingerprint takes in the payloads of the jobs before it.",
        breaks="§5a: the same id and fingerprint answers as the first time",
        edits=(
            Edit(
                "EnqueueForm.__init__",
                "self._hashed = fingerprinting(new.job_type, new.codec, new.queue).copy",
                "running = fingerprinting(new.job_type, new.codec, new.queue)\n    self._hashed = lambda: running",
                FORMS,
            ),
        ),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="arrive-alike-types-differ",
        what="Jobs of several types count as one kind, and all get the type of the first.",
        breaks="§9: a job has the type that it was enqueued with",
        edits=(Edit("_SHARED", '"payload", "key")', '"payload", "key", "job_type")', FORMS),),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="arrive-delay-unseen",
        what="A job with a delay, and nothing else, arrives as one that is due at once.",
        breaks="§2: the store adds its own now to a delay",
        edits=(Edit("_parts", "job.run_at is not None or job.delay is not None", "job.run_at is not None"),),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="arrive-depth-unseen",
        what="Jobs go into a queue with a depth as if it had none.",
        breaks="§11 backpressure",
        edits=(Edit("enqueues_plainly", "rules.max_depth is None and fits_mode", "fits_mode", PLAIN),),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="arrive-expiry-unlisted",
        what="A job that expires isn't among those that the sweep looks at.",
        breaks="§4 expire",
        edits=(Edit("_parts", 'needed.add("ending")', 'needed.discard("ending")'),),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="arrive-hint-said-to-be-sent",
        what="A hint that was to go with the jobs stays behind, and nobody sends it later.",
        breaks="§10.7: an enqueue sends a hint",
        edits=(
            Edit(
                "_arrive_alike",
                '_any(tables.pipeline.ask_part(name, parts | {"heard"}, *values, news.channel, text))',
                "_any(tables.pipeline.ask_part(name, parts, *values))",
            ),
        ),
        killers=("loops-postgres",),
        why="A hint may always come or be late: the machine never counts on one.",
    ),
    Mutant(
        name="arrive-key-shown",
        what="An event shows the key itself, where its hash belongs.",
        breaks="§12: an enqueued event has the key's hash; §18: keys are never shown",
        edits=(Edit("_OWN", '"key_hash", key_hash)', '"key_hash", str)', FORMS),),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="arrive-key-unbound",
        what="A job with a key arrives, and the key isn't taken.",
        breaks="§9: binding and job are one atomic operation",
        edits=(Edit("_parts", 'needed.add("bound")', 'needed.discard("bound")'),),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="arrive-group-of-the-first",
        what="Jobs that differ in their group alone are written by one form, with the group of the first.",
        breaks="§11: a job is of the group that it was enqueued with",
        edits=(Edit("EnqueueForms.of", "differ=_OWN)", 'differ=("key", "labels"))', FORMS),),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="arrive-mixed-labels-of-the-next",
        what="In a batch of several kinds a job gets the labels of the one after it.",
        breaks="§11 labels, fsck",
        edits=(Edit("_arrive_mixed", "enumerate(jobs, 1)", "enumerate(jobs)"),),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="arrive-numbered-size-of-the-first",
        what="Many jobs of one kind all say the size of the first one's payload.",
        breaks="§12 payload size",
        edits=(
            Edit(
                "_numbered_values",
                "form.events(jobs.ids, jobs.payloads",
                "form.events(jobs.ids, jobs.payloads[:1] * len(ids)",
            ),
        ),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="arrive-numbered-turn-ends-early",
        what="A large call lets the next one go on before it has its numbers.",
        breaks="§9: seq grows in the order of the calls",
        edits=(
            Edit(
                "_arrive_alike",
                'moment, numbers = tables.row("arrival_numbers", len(jobs), now)\n        placed()',
                'placed()\n        moment, numbers = tables.row("arrival_numbers", len(jobs), now)',
            ),
        ),
        killers=("loops-postgres",),
        why="The order between two calls that overlap isn't said by the contract, so the machine accepts either.",
    ),
    Mutant(
        name="arrive-numbered-whatever-they-need",
        what="Many jobs of one kind take the way of those that need nothing but room, also if they need more.",
        breaks="§2 run_at, §4 expire, §9 keys, §11 labels",
        edits=(Edit("_arrive_alike", "elif len(jobs) >= MANY and not parts:", "elif len(jobs) >= MANY:"),),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="arrive-order-unlisted",
        what="A job of a group has no place in its group's order.",
        breaks="§11 ordered groups, fsck",
        edits=(Edit("_parts", 'needed.add("grouped")', 'needed.discard("grouped")'),),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="arrive-quick-whatever-it-needs",
        what="A single job is sent without a fiber also if it needs more than room.",
        breaks="§2 run_at, §4 expire, §11 groups and labels",
        edits=(Edit("one_values", "job.key is not None or _parts([job]) or", "job.key is not None or"),),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="arrive-refused-counts-as-told",
        what="Jobs that the statement refused, and another way wrote, seem to have been told with it.",
        breaks="§10.7: an enqueue sends a hint",
        edits=(Edit("_arrive_alike", "if done:\n        news.told()", "news.told()"),),
        killers=("loops-postgres",),
        why="A hint may always come or be late: the machine never counts on one.",
    ),
)
