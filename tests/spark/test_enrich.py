"""The example of the data team runs as its page says, and again without looking anything up twice."""

from pathlib import Path

from tests.spark.programs import Programs

ROOT = Path(__file__).resolve().parents[2]


def run(programs: Programs, *arguments: str) -> list[str]:
    ran = programs.module("examples.enrich.run", *arguments)
    assert not ran.failed, ran.failed
    return ran.printed.splitlines()


def test_rows_are_enriched_once(programs: Programs) -> None:
    first, again = (run(programs, "300", "2000/s") for _ in range(2))
    assert first[0].startswith("300 addresses to look up, 0 asked for before")
    assert again[0].startswith("0 addresses to look up, 300 asked for before")
    counts = {tuple(line.split()[:-1]): int(line.split()[-1]) for line in first[2:]}
    assert counts.pop(("failed",)) == 3
    assert sum(counts.values()) == 297
    assert {state for state, _ in counts} == {"succeeded"}
    assert first[2:] == again[2:]


def test_its_page_names_what_is_there() -> None:
    page = (ROOT / "examples" / "enrich" / "README.md").read_text(encoding="utf-8")
    assert "python -m examples.enrich.run" in page
    assert "tenure worker examples.enrich.app:app" in page
    assert "| [enrich](enrich) |" in (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
