"""Deliberate bugs in `domain/job.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/job.py"

MUTANTS = (
    Mutant(
        name="expire-1ms-late",
        what="A job is not expired at its expires_at.",
        breaks="H10, H15: now ≥ expires_at",
        edits=(
            Edit(
                "Job.expired",
                "return expires_at is not None and now >= expires_at",
                "return expires_at is not None and now > expires_at",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="expire-after-claim",
        what="A job that was claimed once expires after all.",
        breaks="H10: never claimed",
        edits=(Edit("Job.expires_at", "PENDING and self.lease_seq == 0 else", "PENDING else"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="history-of-nineteen",
        what="The record keeps one entry of history too few.",
        breaks="§4: the last 20 entries",
        edits=(Edit("KEPT_ATTEMPTS", "KEPT_ATTEMPTS = 20", "KEPT_ATTEMPTS = 19"),),
        killers=("conformance-memory",),
        why="20 leases of one job take far more steps than the 80 of an example",
    ),
    Mutant(
        name="key-scope-without-type",
        what="The type of a job is not part of the scope of its key.",
        breaks="H9: (tenant, queue, job_type, key)",
        edits=(
            Edit(
                "Spec.binding_key",
                "return None if self.key is None else (self.tenant, self.queue, self.job_type, self.key)",
                'return None if self.key is None else (self.tenant, self.queue, "", self.key)',
            ),
            Edit(
                "_duplicate",
                "binding = unit.binding((new.tenant, new.queue, new.job_type, new.key))",
                'binding = unit.binding((new.tenant, new.queue, "", new.key))',
                "domain/model/enqueue.py",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="lease-expires-1ms-early",
        what="A lease is expired at its deadline already.",
        breaks="H3: at the deadline the holder may act and sweep may not",
        edits=(Edit("Lease.expired", "return now > self.deadline", "return now >= self.deadline"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="lease-expires-1ms-late",
        what="A lease is not yet expired 1 ms after its deadline.",
        breaks="H3: 1 ms after the deadline sweep may take it and the holder may not act",
        edits=(Edit("Lease.expired", "return now > self.deadline", "return now > self.deadline + 1"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="lease-grace-forgotten",
        what="A lease ends without its grace.",
        breaks="H3",
        edits=(Edit("Lease.deadline", "return self.until + self.grace", "return self.until"),),
        killers=("machine-memory",),
    ),
    Mutant(
        name="neutral-equivalent-guard",
        what="No behaviour changes: the guard of a lease says the same in other words.",
        breaks="nothing",
        edits=(
            Edit("Lease.expired", "return now > self.deadline", "return not now <= self.until + self.grace"),
            Edit(
                "refusal",
                "if lease_seq != job.lease_seq or token != job.token:",
                "if (lease_seq, token) != (job.lease_seq, job.token):",
                "domain/transitions.py",
            ),
            Edit(
                "lost",
                "WHERE running.deadline < $1 AND job.seq = running.seq",
                "WHERE $1 > running.deadline AND job.seq = running.seq",
                "stores/sql/sqlite/statements/sweep.sql",
            ),
        ),
        killers=(
            "conformance-memory",
            "conformance-sqlite",
        ),
    ),
    Mutant(
        name="result-window-too-short",
        what="A result does not live as long as the window of its key.",
        breaks="H13: the result lives as long as the binding",
        edits=(
            Edit(
                "result_expiry",
                "return (finished_at or 0) + max(result_ttl, unique_for or 0)",
                "return (finished_at or 0) + result_ttl",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="s17-05-key-without-tenant",
        what="An idempotency key is looked up and bound without its tenant.",
        breaks="§17 global idempotency key leaks another tenant's job; H14, H9",
        edits=(
            Edit(
                "Spec.binding_key",
                "return None if self.key is None else (self.tenant, self.queue, self.job_type, self.key)",
                'return None if self.key is None else ("", self.queue, self.job_type, self.key)',
            ),
            Edit(
                "_duplicate",
                "binding = unit.binding((new.tenant, new.queue, new.job_type, new.key))",
                'binding = unit.binding(("", new.queue, new.job_type, new.key))',
                "domain/model/enqueue.py",
            ),
        ),
        killers=("machine-memory",),
    ),
)
