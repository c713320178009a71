"""Deliberate bugs in `domain/rate.py`."""

from tests.mutants.mutant import Edit, Mutant

MODULE = "domain/rate.py"

MUTANTS = (
    Mutant(
        name="rate-burst-off-by-one",
        what="A bucket lets one job more through than its burst.",
        breaks="H7: τ = (burst − 1)·T",
        edits=(
            Edit(
                "Bucket.conforms_at",
                "return tat - (self.burst - 1) * self.interval",
                "return tat - self.burst * self.interval",
            ),
        ),
        killers=("machine-memory",),
    ),
    Mutant(
        name="rate-interval-floored",
        what="The interval of a rate is rounded down.",
        breaks="H7: T = ceil(period/rate)",
        edits=(
            Edit(
                "Bucket.interval",
                "return -(-self.rate.period * 1_000 // self.rate.count)",
                "return self.rate.period * 1_000 // self.rate.count",
            ),
        ),
        killers=("conformance-memory",),
        why=(
            "the rates of the machine differ by a microsecond then, which shows after more jobs in a row than it claims"
        ),
    ),
    Mutant(
        name="rate-saves-up",
        what="Time that was not used adds up beyond the burst.",
        breaks="H7: TAT = max(TAT, now) + T",
        edits=(
            Edit(
                "Bucket.spend",
                "return max(tat, now * 1_000) + self.interval",
                "return (tat or now * 1_000) + self.interval",
            ),
        ),
        killers=("machine-memory",),
    ),
)
