"""What an installation may lack: only what exists is advised, and one place says it."""

import re
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest

import tenure
from tenure.domain.extras import Extra, install, needs

SOURCE = Path(tenure.__file__).parent


def test_every_extra_that_is_advised_exists() -> None:
    declared = metadata("tenure").get_all("Provides-Extra") or []
    assert set(Extra) <= set(declared)


@pytest.mark.parametrize("extra", Extra)
def test_the_command_that_installs_it_is_named_once(extra: Extra) -> None:
    said = needs("this", extra)
    assert said == f"this needs the extra '{extra}': pip install 'tenure[{extra}]'"
    assert install(extra) == f"pip install 'tenure[{extra}]'"


def test_no_other_module_words_that_advice() -> None:
    advising = {path.name for path in SOURCE.rglob("*.py") if re.search(r"pip install '?tenure\[", path.read_text())}
    assert advising == {"extras.py"}


def test_without_hiredis_the_extra_is_named_and_the_rest_works() -> None:
    program = (
        "import sys; sys.modules['hiredis'] = None\n"
        "import tenure.stores.opening, tenure.testing.valkey, tenure.service.cli.main\n"
        "try:\n    import tenure.stores.redis.client\nexcept ImportError as error:\n    print(error)"
    )
    ran = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "tenure.stores.redis needs the extra 'redis': pip install 'tenure[redis]'\n"
