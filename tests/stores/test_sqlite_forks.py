"""Forked children on a SQLite file: they hold no lock of their parent's, and lose nothing of anybody's.

Each scene is a program of its own, as a fork copies the whole process. Children wait at pipes, not for a time.
"""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import asyncio, fcntl, multiprocessing, os, signal, sqlite3, sys, threading
from concurrent.futures import ThreadPoolExecutor
from tenure.domain.calls import Enqueued
from tenure.domain.errors import StoreUnavailable
from tenure.domain.job import NewJob
from tenure.stores.sql.sqlite import SqliteStore

path = sys.argv[1]

def job(number):
    ident = f"00000000-0000-7000-8000-{number:012x}"
    return NewJob(tenant="acme", id=ident, queue="mail", job_type="send", payload=b"1")

def put(store, number):
    assert asyncio.run(store.enqueue([job(number)])) == [Enqueued(job(number).id)]

def alone(step):
    '''As code that isn't inside of anything: an event loop runs where the fork was.'''
    with ThreadPoolExecutor(1) as thread:
        thread.submit(step).result()

class Child:
    '''Runs each of some steps when it is told to.'''
    def __init__(self, *steps):
        mine, self.its, = os.pipe()
        self.mine, its = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.its)
            code = 1
            try:
                for step in steps:
                    os.read(mine, 1)
                    alone(step)
                    os.write(its, b"!")
                os.read(mine, 1)  # until the parent hangs up
                code = 0
            finally:
                os._exit(code)
        os.close(mine)
        os.close(its)

    def step(self):
        os.write(self.its, b"!")
        assert os.read(self.mine, 1) == b"!", "the child broke"

    def end(self):
        os.close(self.its)
        assert os.waitpid(self.pid, 0)[1] == 0

def refused(store):
    try:
        put(store, 99)
    except StoreUnavailable as error:
        assert "when this process was forked" in str(error), error
    else:
        raise AssertionError("a child took its parent's connections for its own")
"""


def run(folder: Path, scene: str, *, killed: bool = False) -> None:
    """Runs a scene to its end, or to where it kills itself."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", BEGIN + scene, str(folder / "jobs.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == (-signal.SIGKILL if killed else 0), done.stdout + done.stderr


def kept(folder: Path) -> list[int]:
    """The numbers of the jobs in the file, as any other program sees them."""
    with sqlite3.connect(folder / "jobs.db") as connection:
        found = [int(row[0][-12:], 16) for row in connection.execute("SELECT id FROM record ORDER BY id")]
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    return found


def test_what_a_child_commits_stays_when_its_parent_closes(tmp_path: Path) -> None:
    """The parent closes its last connection, and nobody else but the child has one."""
    run(
        tmp_path,
        """
store = SqliteStore(path)
asyncio.run(store.migrate())
put(store, 1)
child = Child(lambda: put(store, 2), lambda: put(store, 3))
child.step()
put(store, 4)
asyncio.run(store.close())
child.step()
child.end()
""",
    )
    assert kept(tmp_path) == [1, 2, 3, 4]


def test_a_child_of_a_busy_parent_enqueues(tmp_path: Path) -> None:
    """The writer is in a transaction most of the time, and the reader and the listener work, too."""
    run(
        tmp_path,
        """
store = SqliteStore(path)
asyncio.run(store.migrate())
enough = threading.Event()
count = 0
def write():
    global count
    while not enough.is_set():
        count += 1
        put(store, count)
def read():
    while not enough.is_set():
        asyncio.run(store.get([("acme", job(1).id)]))
        asyncio.run(store.wait(["queue/mail"], 0))
threads = [threading.Thread(target=write), threading.Thread(target=read)]
for thread in threads:
    thread.start()
for number in range(20):
    child = Child(lambda: put(store, 10_000 + number))
    child.step()
    child.end()
enough.set()
for thread in threads:
    thread.join()
asyncio.run(store.close())
""",
    )
    found = kept(tmp_path)
    assert [number for number in found if number >= 10_000] == [10_000 + number for number in range(20)]
    ours = [number for number in found if number < 10_000]
    assert ours == list(range(1, len(ours) + 1))


TRANSACTION = """
store = SqliteStore(path)
asyncio.run(store.migrate())
put(store, 1)
"""

OPEN = {
    "ctx.transaction": """
async def scene(inside):
    async with store.transaction() as opened:
        opened.enqueue([job(2)])
        inside(opened)
asyncio.run(scene(inside))
""",
    "the user's own": """
mine = sqlite3.connect(path, isolation_level=None)
mine.execute("BEGIN IMMEDIATE")
store.enqueue_in(mine, [job(2)])
inside(mine)
mine.execute("COMMIT")
mine.close()
""",
}


@pytest.mark.parametrize("kind", OPEN)
def test_a_child_forked_inside_a_transaction_is_refused_and_holds_nobody_up(tmp_path: Path, kind: str) -> None:
    run(
        tmp_path,
        TRANSACTION
        + """
def inside(opened):
    global child
    child = Child(lambda: refused(store), lambda: refused(SqliteStore(path)))
    child.step()
"""
        + OPEN[kind]
        + """
put(store, 3)
child.step()
put(store, 4)
other = Child(lambda: put(store, 5))
other.step()
other.end()
child.end()
asyncio.run(store.close())
""",
    )
    assert kept(tmp_path) == [1, 2, 3, 4, 5]


def test_a_connection_that_the_child_opened_and_has_not_read_yet_is_its_own(tmp_path: Path) -> None:
    """As Django's is in each process of its parallel tests: opened, with no lock before the first read."""
    run(
        tmp_path,
        TRANSACTION
        + """
def opened():
    global mine
    mine = sqlite3.connect(path, check_same_thread=False)

child = Child(opened, lambda: put(store, 2), lambda: mine.close())
for _ in range(3):
    child.step()
child.end()
asyncio.run(store.close())
""",
    )
    assert kept(tmp_path) == [1, 2]


@pytest.mark.parametrize("kind", OPEN)
def test_a_killed_parent_leaves_no_lock_with_its_child(tmp_path: Path, kind: str) -> None:
    """The child lives on: it was forked inside the transaction, and its parent never got to its end."""
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    scene = (
        TRANSACTION
        + f"""
def inside(opened):
    if os.fork() == 0:
        for stream in (0, 1, 2):
            os.close(stream)
        os.read({reading}, 1)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
"""
        + OPEN[kind]
    )
    try:
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", BEGIN + scene, str(tmp_path / "jobs.db")]
        done = subprocess.run(command, stderr=subprocess.PIPE, pass_fds=[reading], timeout=60, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()
        run(tmp_path, "store = SqliteStore(path)\nput(store, 7)\nasyncio.run(store.close())\n")
        assert kept(tmp_path) == [1, 7]
    finally:
        os.close(writing)
        os.close(reading)


def test_a_child_that_leaves_its_parents_transaction_ends_nothing(tmp_path: Path) -> None:
    """It unwinds, and ends as a program does, with every object taken down: the parent's transaction goes on."""
    run(
        tmp_path,
        TRANSACTION
        + """
from tenure.stores.sql.sqlite.file import StoreFile
from tenure.stores.sql.sqlite.transaction import SqliteTransaction
opened = SqliteTransaction(StoreFile(path), lambda: 1_800_000_000_000)
opened.begin()
opened.enqueue([job(2)])
opened.connection.execute("PRAGMA cache_size = 2")  # what is written goes to the log before the commit
opened.connection.execute("CREATE TABLE filler (text)")
opened.connection.executemany("INSERT INTO filler VALUES (?)", [("x" * 3_000,)] * 300)
child = os.fork()
if child == 0:
    try:
        opened.connection
    except StoreUnavailable as error:
        assert "forked child" in str(error)
    opened.close()
    raise SystemExit(0)
assert os.waitpid(child, 0)[1] == 0
held = os.open(path + "-lock", os.O_RDWR)
try:
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    pass
else:
    raise AssertionError("the child let go of its parent's lock")
os.close(held)
opened.enqueue([job(3)])
assert opened.connection.execute("SELECT count(*) FROM filler").fetchone() == (300,)
opened.commit()
opened.close()
asyncio.run(store.close())
""",
    )
    assert kept(tmp_path) == [1, 2, 3]


def test_a_fork_waits_for_no_other_programs_transaction(tmp_path: Path) -> None:
    """The forking thread itself holds what the writer waits for: to wait for the writer would be to wait for itself."""
    run(
        tmp_path,
        TRANSACTION
        + """
mine = sqlite3.connect(path, isolation_level=None)
mine.execute("BEGIN IMMEDIATE")
writing = threading.Thread(target=put, args=(store, 2))
writing.start()
while True:  # until the writer has the lock: it waits for nothing else then
    held = os.open(path + "-lock", os.O_RDWR)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        break
    finally:
        os.close(held)
child = Child(lambda: refused(store))
child.step()
assert writing.is_alive()
mine.execute("COMMIT")
writing.join()
child.end()
asyncio.run(store.close())
""",
    )
    assert kept(tmp_path) == [1, 2]


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_processes_that_arent_forked_work_inside_a_transaction(tmp_path: Path, method: str) -> None:
    (tmp_path / "helper.py").write_text(
        """
import asyncio
from tenure.domain.job import NewJob
from tenure.stores.sql.sqlite import SqliteStore

def put(path, ident, started):
    started.set()
    store = SqliteStore(path)
    asyncio.run(store.enqueue([NewJob(tenant="acme", id=ident, queue="mail", job_type="send", payload=b"1")]))
    asyncio.run(store.close())
"""
    )
    run(
        tmp_path,
        TRANSACTION
        + f"""
sys.path.insert(0, os.path.dirname(path))
import helper
context = multiprocessing.get_context({method!r})
async def scene():
    async with store.transaction() as opened:
        opened.enqueue([job(2)])
        started = context.Event()
        child = context.Process(target=helper.put, args=(path, job(3).id, started))
        child.start()
        started.wait()
    return child
child = asyncio.run(scene())
child.join()
assert child.exitcode == 0
put(store, 4)
asyncio.run(store.close())
""",
    )
    assert kept(tmp_path) == [1, 2, 3, 4]
