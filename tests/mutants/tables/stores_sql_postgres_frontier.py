"""Deliberate bugs in `stores/sql/postgres/frontier.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "stores/sql/postgres/frontier.py"

MUTANTS = (
    Mutant(
        name="border-own-writes-old",
        what="What a sweep's transaction wrote behind a border looks old to the next one, which passes over it.",
        breaks="§12: each event is seen exactly once by following the feed",
        edits=(Edit("Border.then", "Border(mark, snapshot, own, server", "Border(mark, snapshot, None, server"),),
        killers=("frontier-postgres",),
        why="No sweep of the machine's writes events behind the border that it has just read.",
    ),
    Mutant(
        name="frontier-lent-to-two",
        what="A frontier that one transaction is at is lent to another.",
        breaks="a frontier serves one transaction at a time; §10: no claim passes over an unlocked, eligible job",
        edits=(Edit("Frontiers.lend", "kept = self._kept.pop()", "kept = self._kept[-1]"),),
        killers=("frontier-postgres",),
        why="Of the machine's claims from frontiers no two overlap.",
    ),
    Mutant(
        name="frontier-names-as-they-came",
        what="Tenants stand in a frontier's ring in the order in which they came.",
        breaks="§11a.3: byte order",
        edits=(
            Edit("Frontier._put", "insort(names, tenant)", "names.append(tenant)"),
            Edit("Frontier._put", "del names[bisect_left(names, tenant)]", "names.remove(tenant)"),
        ),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="frontier-names-merged-once",
        what="A claim of several queues doesn't see a tenant that came since the last one.",
        breaks="§11a: the walk over all tenants with a takeable job",
        edits=(
            Edit(
                "Frontier._put",
                "insort(names, tenant)\n            self._merged.clear()",
                "insort(names, tenant)",
            ),
        ),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="frontier-never-kept",
        what="Claims that walk many dead rows keep no frontier.",
        breaks="a held transaction: claims do not walk dead rows",
        edits=(Edit("Frontiers.looked", "self._until = now + KEEP_SECONDS", "self._until = now"),),
        killers=("frontier-postgres",),
        why="What a claim takes is the same, only later.",
    ),
    Mutant(
        name="frontier-newcomer-behind",
        what="A job that comes in before a lane's mark is passed over.",
        breaks="§10: no claim passes over an unlocked, eligible job",
        edits=(Edit("Frontier.newcomer", "if known is None or mark < known:", "if known is None:"),),
        killers=("machine-postgres",),
    ),
    Mutant(
        name="frontier-outlives-the-connection",
        what="A connection uses what was learnt before it was opened, perhaps from a server that has crashed since.",
        breaks="§10: no claim passes over an unlocked, eligible job",
        edits=(Edit("Frontiers.lend", "elif kept.sent <= since:", "elif kept.sent < 0:"),),
        killers=("frontier-postgres",),
        why="The machine's server never crashes.",
    ),
    Mutant(
        name="frontier-own-writes-old",
        what="What a claim's own transaction wrote looks old to the next claim, which passes over it.",
        breaks="§10: no claim passes over an unlocked, eligible job",
        edits=(
            Edit(
                "Frontier.at",
                "self.snapshot, self.own, self.server, self.sent = snapshot, own, server, sent",
                "self.snapshot, self.own, self.server, self.sent = snapshot, None, server, sent",
            ),
        ),
        killers=("frontier-postgres",),
        why="No transaction of the machine's begins and ends while one claims that gives back jobs.",
    ),
    Mutant(
        name="frontier-undone-moment-stays",
        what="After a transaction that was undone the marks are what they were, but not the moment they belong to.",
        breaks="§10: no claim passes over an unlocked, eligible job",
        edits=(
            Edit(
                "Frontier.undo",
                "self._due = self._due_before\n    "
                "self.snapshot, self.own, self.server, self.sent = self._moment_before",
                "self._due = self._due_before",
            ),
        ),
        killers=("frontier-postgres",),
        why="No claim from a frontier is undone in the machine.",
    ),
    Mutant(
        name="frontier-undone-stays",
        what="What was learnt in a transaction that was undone stays: rows that it had taken are lost to claims.",
        breaks="§10: no claim passes over an unlocked, eligible job",
        edits=(
            Edit(
                "Frontier.undo",
                "for (lane, prio_neg), mark in self._before.items():\n"
                "        self._put(lane, prio_neg, mark)\n"
                "    self._due = self._due_before\n"
                "    self.snapshot, self.own, self.server, self.sent = self._moment_before",
                "self._before.clear()",
            ),
        ),
        killers=("frontier-postgres",),
        why="No claim from a frontier is undone in the machine.",
    ),
    Mutant(
        name="frontier-undone-to-the-last",
        what="After a transaction that was undone a mark is what its last look but one had learnt.",
        breaks="§10: no claim passes over an unlocked, eligible job",
        edits=(
            Edit(
                "Frontier._learn",
                "self._before.setdefault((lane, prio_neg), self.marks(lane).get(prio_neg))",
                "self._before[lane, prio_neg] = self.marks(lane).get(prio_neg)",
            ),
        ),
        killers=("frontier-postgres",),
        why="No claim from a frontier is undone in the machine.",
    ),
)
