"""A session from pip alone: `python -m bench.spark_only [--record]`.

A new virtual environment gets Tenure with the extra `spark` and nothing else; a session then starts in it with no Java
on the path and no JAVA_HOME.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import record
from bench.fresh import environment
from bench.record import RESULTS, ROOT, Figures

CODE = "import tenure.spark; print(tenure.spark.session(master='local[1]').range(3).count())"


def programs_without_java(folder: Path) -> Path:
    """Every program of the usual folders but Java's."""
    folder.mkdir()
    found = {program.name: program for place in ("/bin", "/usr/bin") for program in Path(place).iterdir()}
    for name, program in found.items():
        if not name.startswith("java"):
            (folder / name).symlink_to(program)
    return folder


def measure(folder: Path) -> Figures:
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = str(venv / "bin" / "python")
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, "-c", _pins(folder), f"{ROOT}[spark]"], check=True, env=environment())
    clean = {name: value for name, value in environment().items() if name != "JAVA_HOME"}
    clean |= {"PATH": str(programs_without_java(folder / "programs")), "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run([python, "-c", CODE], env=clean, capture_output=True, text=True, check=False, cwd=folder)
    size = sum(path.stat().st_size for path in venv.rglob("*") if path.is_file() and not path.is_symlink())
    return {
        "said": done.stdout.strip() or done.stderr[-500:],
        "packages": len(list(venv.glob("lib/*/site-packages/*.dist-info"))),
        "mib": size >> 20,
    }


def _pins(folder: Path) -> str:
    """The versions of the lock file, as constraints."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = folder / "constraints.txt"
    pins.write_text("\n".join(line.rstrip(" \\") for line in lines if "==" in line and not line.startswith((" ", "#"))))
    return str(pins)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_only", description=__doc__)
    parser.add_argument("--record", action="store_true", help="keep the outcome in bench/results/spark_only.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tenure-spark-", dir=os.environ.get("TMPDIR")) as folder:
        figures = measure(Path(folder))
    print(figures)
    if options.record:
        record.write(RESULTS / "spark_only.json", "python -m bench.spark_only --record", figures)
    return 0 if figures["said"] == "3" else 1


if __name__ == "__main__":
    sys.exit(main())
