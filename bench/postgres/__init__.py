"""PostgreSQL: whole workers beside those of its peers, growth, fairness, and a transaction held open."""
