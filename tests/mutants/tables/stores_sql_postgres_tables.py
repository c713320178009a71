"""Deliberate bugs in `stores/sql/postgres/tables.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/tables.py"

MUTANTS = (
    Mutant(
        name="frontier-late-due-waits",
        what="A job that came into `scheduled` before a frontier's mark, and is due, waits for the next claim.",
        breaks="§11a: takeable is what is due",
        edits=(
            Edit(
                "PostgresTables._look_from",
                "[queue for queue in queues if frontier.due_at(queue) < from_where.get(queue, NOTHING)]",
                "[queue for queue in queues if frontier.due_at(queue) < from_where.get(queue, (0, 0))]",
            ),
        ),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="neutral-postgres-sequencer-lock",
        what=(
            "Nobody waits with giving chunks their places; whoever comes second begins again (changes no behaviour)."
        ),
        breaks="nothing",
        edits=(
            Edit(
                "PostgresTables.sequence",
                ('"""Gives the chunks that are visible their places in the feed."""\n    self.lock("feed")'),
                '"""Gives the chunks that are visible their places in the feed."""',
            ),
        ),
        killers=(
            "machine-postgres",
            "together-postgres",
            "network-postgres",
            "transactions-postgres",
        ),
    ),
    Mutant(
        name="postgres-claim-repeated-takes-more",
        what="A claim that is sent again after its reply was lost doesn't look for what it holds.",
        breaks="§5a: a claim id already used answers with the jobs still running under it",
        edits=(Edit("PostgresTables.running_under", "if self.new_claim:", "if self.new_claim or self._careful:"),),
        killers=("network-postgres",),
        why="The machine's connection never breaks.",
    ),
    Mutant(
        name="postgres-claims-lock-no-group",
        what="Claims count a group's, a lane's or a bucket's use without keeping others from doing the same.",
        breaks="§11: |holders| ≤ group_limit after every operation",
        edits=(Edit("PostgresTables._mine", "if not self.writing:", "if self.writing or what:"),),
        killers=("together-postgres",),
        why="No two calls of the machine that overlap meet here.",
    ),
    Mutant(
        name="postgres-rate-not-locked",
        what="A claim spends from a bucket that another is just spending from.",
        breaks="§11: a bucket is spent per job taken",
        edits=(
            Edit(
                "PostgresTables.bucket",
                (
                    'mine = self._mine("group", *key) if group else self._mine("lane", tenant, queue)\n'
                    "    return super().bucket(key) if mine else FULL"
                ),
                ("mine = tenant == queue == group\n    return super().bucket(key) if mine or not mine else FULL"),
            ),
        ),
        killers=("together-postgres",),
        why="No two calls of the machine that overlap meet here.",
    ),
    Mutant(
        name="postgres-two-parents-dont-wait",
        what="Two parents that end together don't see each other, and the child stays blocked.",
        breaks="§15: unresolved parents are a set, also when two parents end at once",
        edits=(
            Edit(
                "PostgresTables.edges_to",
                (
                    "def edges_to(self, children: Sequence[Ref]) -> dict[Ref, list[Edge]]:\n"
                    "    if self.writing:\n"
                    '        self.of("hold_blocked", children)'
                ),
                "def edges_to(self, children: Sequence[Ref]) -> dict[Ref, list[Edge]]:",
            ),
        ),
        killers=("together-postgres",),
        why="No two calls of the machine that overlap meet here.",
    ),
)
