"""The private server that tools/with_server.sh has started: crashes it and starts it again. Only its processes, by id."""

import os
import signal
import subprocess
import time

import psycopg2

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.environ["QUEEN_SERVER_DATA"]
LOG = os.environ["QUEEN_SERVER_LOG"]


def postmaster() -> int:
    with open(os.path.join(DATA, "postmaster.pid"), encoding="utf-8") as file:
        return int(file.readline())


def children(parent: int) -> list:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                    if int(file.read().rpartition(")")[2].split()[1]) == parent:
                        found.append(int(name))
            except (FileNotFoundError, ProcessLookupError):
                pass
    return found


def kill(pids: list, how: signal.Signals):
    for pid in pids:
        try:
            os.kill(pid, how)
        except ProcessLookupError:
            pass


def power_cut():
    """kill -9 of all processes at once, as seen from the disk: nobody gets to say or to write anything."""
    pid = postmaster()
    kill([pid], signal.SIGSTOP)  # no new children
    kill([pid] + children(pid), signal.SIGKILL)
    start()


def immediate():
    """Children are told to leave at once, as an impatient administrator does."""
    pid = postmaster()
    kill([pid], signal.SIGQUIT)
    while os.path.exists(f"/proc/{pid}"):
        time.sleep(0.02)
    start()


def backend_killed(rng):
    """kill -9 of one backend: the postmaster ends all others and recovers."""
    with psycopg2.connect(application_name="soak-quiet-killer") as conn, conn.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'soak-%' AND pid <> pg_backend_pid() ORDER BY state = 'active' DESC")
        pids = [row[0] for row in cursor.fetchall()]
    if pids:
        kill([pids[int(len(pids) * rng.random() ** 3)]], signal.SIGKILL)


def start():
    """Processes of the killed server may still hold its shared memory for a moment: try again."""
    for _ in range(300):
        done = subprocess.run([os.path.join(TOP, "tools/as_user.sh"), "pg_ctl", "-D", DATA, "-l", LOG, "-w", "-t", "300", "start"],
                              cwd=os.path.dirname(DATA), capture_output=True, check=False)
        if done.returncode == 0:
            return
        time.sleep(0.1)
    raise RuntimeError(f"the server does not start again: {done.stderr.decode()}")


def wait_until_up():
    while True:
        try:
            psycopg2.connect(application_name="soak-quiet-wait").close()
            return
        except psycopg2.OperationalError:
            time.sleep(0.05)
