"""Deliberate bugs in `domain/model/claim.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/model/claim.py"

MUTANTS = (
    Mutant(
        name="claim-at-most-ignored",
        what="A queue's own bound in a claim is ignored.",
        breaks="H10: at_most",
        edits=(Edit("Walk._lane_ready", "return (left is None or left > 0) and lane.ready()", "return lane.ready()"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-burst-miscounts",
        what="A lone tenant that is given many at once is left at the wrong place of its visit.",
        breaks="H10: the same as one at a time",
        edits=(
            Edit(
                "Walk.run",
                "turns, used = turns + (given - 1) // weight, (given - 1) % weight + 1",
                "turns, used = turns + given // weight, given % weight",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-empty-moves-cursor",
        what="An empty claim forgets how far the visit was.",
        breaks="H10: after an empty claim the cursor is the one passed in",
        edits=(Edit("claim", "cursor if jobs else request.cursor", "cursor"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-foreign-tenant-at-cursor",
        what="The tenant at the cursor is served though it was not asked for.",
        breaks="H14",
        edits=(
            Edit(
                "Walk._allowed", "return self.request.tenants is None or tenant in self.request.tenants", "return True"
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-group-limit-off-by-one",
        what="A group may run one more than its limit.",
        breaks="H6",
        edits=(
            Edit(
                "Group.ready",
                "has_room = self.limit is None or self.holders < self.limit",
                "has_room = self.limit is None or self.holders <= self.limit",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-group-position-stands",
        what="The position of a keyed queue is not moved: its first group is always served first.",
        breaks="H10: groups rotate",
        edits=(
            Edit(
                "claim",
                ("unit.buckets.update(walk.spent())\n    unit.positions.update(walk.moved())"),
                "unit.buckets.update(walk.spent())",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-id-ignored",
        what="A claim id already in use takes more jobs.",
        breaks="H3: it answers with the jobs still running under it",
        edits=(Edit("claim", "held = unit.tables.running_under(token)", "held: list[Ref] = []"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-limit-not-counted-down",
        what="What a claim has taken so far does not count for the limit.",
        breaks="H6: what this claim has taken so far counts",
        edits=(Edit("Lane.take", "self._room -= 1", "self._room -= 0"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-ordered-skips-back-off",
        what="An ordered group offers its next due job while its head waits.",
        breaks="H10: a head in back-off blocks its group",
        edits=(
            Edit(
                "Group.__init__",
                "_line = _ordered_line(lane, name) if lane.rules.ordered else tables.line",
                "_line = tables.line",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-queue-limit-off-by-one",
        what="A queue may run one more than its limit.",
        breaks="H6",
        edits=(
            Edit(
                "Lane.ready",
                "if self._room is not None and self._room <= 0:",
                "if self._room is not None and self._room < 0:",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-queue-slot-without-round",
        what="Each visit of a tenant begins at its first queue again.",
        breaks="H10: slot (round × weight + used)",
        edits=(Edit("Walk._pick", "start = (turns * weight + used) % len(slots)", "start = used % len(slots)"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-queue-weight-ignored",
        what="Every queue weighs 1.",
        breaks="H10: queues by weight",
        edits=(
            Edit(
                "Walk._lanes",
                "self._slots[tenant] = [lane for lane in lanes for _ in range(lane.rules.weight)]",
                "self._slots[tenant] = [lane for lane in lanes for _ in range(1)]",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-round-stands",
        what="Passing the end of the ring does not advance the round.",
        breaks="H10",
        edits=(Edit("Walk.run", "turns += following <= tenant", "turns += 0"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-tenant-pause-ignored",
        what="Jobs of a paused tenant are claimed.",
        breaks="H10: paused at any level",
        edits=(
            Edit(
                "Walk._lanes",
                "lanes = [] if paused else [self._lane(tenant, queue) for queue in self.queues]",
                "lanes = [self._lane(tenant, queue) for queue in self.queues]",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-tenant-weight-ignored",
        what="Every tenant weighs 1.",
        breaks="H10: rotation by weight",
        edits=(
            Edit(
                "Walk._weight",
                "self._weights[tenant] = self.tables.tenant_config(tenant).weight or 1",
                "self._weights[tenant] = 1",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-tops-up",
        what="A claim id already in use answers only if all that was asked for still runs.",
        breaks="H3: it answers with the jobs still running and takes no more",
        edits=(Edit("claim", "if held:", "if len(held) >= request.n:"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-used-ignored",
        what="A visit in the middle of a tenant begins anew: `used` of the cursor is not read.",
        breaks="H10: the cursor ends in the middle of a visit",
        edits=(
            Edit(
                "Walk.run",
                "tenant, used, turns = at.tenant, at.used, at.round",
                "tenant, used, turns = at.tenant, 0, at.round",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-wake-ignores-buckets",
        what="wake_after does not tell when a bucket will conform.",
        breaks="H15: wake_after",
        edits=(
            Edit(
                "Walk.wake_after",
                "waits = [wait for lane in self._distinct_lanes() for wait in lane.waits(taken)]",
                "waits: list[Ms] = []",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="freeze-lets-claim-through",
        what="A frozen store gives out leases.",
        breaks="H2: StoreFrozen",
        edits=(Edit("claim", ('"""\n    if unit.meta.frozen:\n        return StoreFrozen()'), '"""'),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="lease-ttl-of-queue-ignored",
        what="A queue's own lease length is ignored.",
        breaks="H3: job, queue, claim, in this order",
        edits=(Edit("lease_for", "lease, rules.lease, request", "lease, None, request"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="neutral-renamed-local",
        what="No behaviour changes: a local of the claim is renamed.",
        breaks="nothing",
        edits=(
            Edit(
                "Walk.run",
                ("at = self.request.cursor\n    tenant, used, turns = at.tenant, at.used, at.round"),
                ("start = self.request.cursor\n    tenant, used, turns = start.tenant, start.used, start.round"),
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="rate-group-not-spent",
        what="A job taken spends its queue's bucket and not its group's.",
        breaks="H7: both are spent",
        edits=(Edit("Group.take", ("self.holders += 1\n    self.gauge.spend(now)"), "self.holders += 1"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="rate-not-written-back",
        what="What a claim spent is forgotten after it.",
        breaks="H7",
        edits=(
            Edit(
                "claim",
                (
                    "jobs = (lease or _lease_all)(unit, request, token, walk.taken)\n"
                    "    unit.buckets.update(walk.spent())"
                ),
                "jobs = (lease or _lease_all)(unit, request, token, walk.taken)",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="s17-17-more-than-n",
        what="A claim for n jobs takes n + 1.",
        breaks="§17 claiming takes more than n; H6",
        edits=(
            Edit("Walk.run", "while len(self.taken) < self.request.n:", "while len(self.taken) <= self.request.n:"),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="claim-wake-counts-paused",
        what="wake_after tells the time of jobs in paused queues.",
        breaks="H15: wake_after",
        edits=(Edit("_first_upcoming", "if not paused and (tenants", "if (tenants"),),
        killers=("machine-memory",),
    ),
)
