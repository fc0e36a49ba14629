#!/usr/bin/env python3
"""Runs the examples of Markdown files as they are written, and compares what they print with what the files say.

examples.py [--pooled] [--must-fail] FILE...

Runs inside tools/with_server.sh. Each file has a database "app" of its own, with the extension in it, and its blocks run in
their order; the name of a fence says how:

    sql          by psql, which stops at the first error
    console      statements behind the prompt app=# (and its continuations), one psql session a block, with what psql prints
    python       a program for /usr/bin/python3; a text block behind it, with no other block between, is what it prints
    javascript   the same for node, with Debian's node-postgres

Blocks of other names and of none are not run. Compared is all that is printed, errors included, but for three things: blanks
at a line's end; a uuid, which stands for one other uuid throughout a file (so an answer that a document uses again is used
again); and a time, which stands for any (with the blanks and dashes around it: a time has no fixed width).

--pooled      through pgbouncer in transaction mode, which gives each transaction a connection that nobody used before
--must-fail   the test of the test: each "## " section of a file runs by itself, and one block of it must fail
"""
import contextlib
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UNPACKED = os.path.join(TOP, "build", "unpacked", "usr")
TIMEOUT = 120  # seconds for one block: the machine may be busy
UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?:[+-]\d\d(?::?\d\d)?|Z)?")
PROMPT = re.compile(r"^app[=*]# ")
CONTINUED = re.compile(r"^app[-('\"$*]# ")
RUN = ("sql", "console", "python", "javascript")


class Failure(Exception):
    pass


class Block:
    def __init__(self, name, line):
        self.name, self.line, self.lines, self.output = name, line, [], None

    @property
    def text(self):
        return "".join(line + "\n" for line in self.lines)


def blocks_of(text, first_line=1):
    """The blocks that are run, each program with what it prints."""
    found, block = [], None
    for number, line in enumerate(text.split("\n"), first_line):
        if block is not None and line.rstrip() == "```":
            if block.name == "text" and found and found[-1].name in ("python", "javascript") and found[-1].output is None:
                found[-1].output = block.text
            found.append(block)
            block = None
        elif block is not None:
            block.lines.append(line)
        elif line.startswith("```"):
            block = Block(line[3:].strip(), number)
    if block is not None:
        raise Failure(f"line {block.line}: the block does not end")
    return [b for b in found if b.name in RUN]


class Uuids:
    """Which uuid of this run a uuid of the document stands for, and the reverse."""

    def __init__(self):
        self.real, self.written = {}, {}

    def substitute(self, text):
        return UUID.sub(lambda m: self.real.get(m.group(), m.group()), text)

    def learn(self, expected, printed):
        """The printed text in the document's uuids; those that are met for the first time are paired by their order."""
        wanted, got = UUID.findall(expected), UUID.findall(printed)
        if len(wanted) == len(got):
            for w, g in zip(wanted, got):
                if w not in self.real and g not in self.written:
                    self.real[w], self.written[g] = g, w
        return UUID.sub(lambda m: self.written.get(m.group(), m.group()), printed)


def comparable(text):
    if TIME.search(text):
        text = re.sub(r"-{3,}", "--", re.sub(r" +", " ", TIME.sub("<time>", text)))
    return [line.rstrip() for line in text.rstrip().split("\n")]


def compare(expected, printed, uuids):
    printed = uuids.learn(expected, printed)
    want, got = comparable(expected), comparable(printed)
    if want != got:
        raise Failure("\n".join(difflib.unified_diff(want, got, "written", "printed", lineterm="")))


def psql(*options):
    return ["psql", "-X", "-d", "app", *options]


def run_sql(block, uuids):
    done = subprocess.run(psql("-q", "-v", "ON_ERROR_STOP=1", "-f", "-"), input=uuids.substitute(block.text),
                          capture_output=True, text=True, timeout=TIMEOUT)
    if done.returncode != 0:
        raise Failure(done.stderr)


def statements(block):
    """(statement, what it prints) of a console block."""
    found = []
    for line in block.lines:
        if PROMPT.match(line):
            found.append(([PROMPT.sub("", line, count=1)], []))
        elif CONTINUED.match(line) and found and not found[-1][1]:
            found[-1][0].append(CONTINUED.sub("", line, count=1))
        elif found:
            found[-1][1].append(line)
        elif line.strip():
            raise Failure(f"a console block begins with a prompt: {line}")
    return [("\n".join(s), "\n".join(p)) for s, p in found]


def run_console(block, uuids):
    marker = "-- that was all --"
    session = subprocess.Popen(psql("-q"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    watchdog = threading.Timer(TIMEOUT, session.kill)
    watchdog.start()
    try:
        session.stdin.write("\\set QUIET off\n")
        for statement, expected in statements(block):
            printed = []
            session.stdin.write(f"{uuids.substitute(statement)}\n\\echo '{marker}'\n")
            session.stdin.flush()
            for line in session.stdout:
                if line.rstrip("\n") == marker:
                    break
                printed.append(line)
            else:
                raise Failure(f"psql has ended in: {statement}\n{''.join(printed)}")
            try:
                compare(expected, "".join(printed), uuids)
            except Failure as e:
                raise Failure(f"{statement}\n{e}") from None
    finally:
        watchdog.cancel()
        session.stdin.close()
        session.wait(timeout=TIMEOUT)


def run_program(block, uuids, command, suffix, env=None):
    with tempfile.TemporaryDirectory() as where:
        program = os.path.join(where, "example" + suffix)
        with open(program, "w", encoding="utf-8") as out:
            out.write(uuids.substitute(block.text))
        done = subprocess.run([*command, program], capture_output=True, text=True, timeout=TIMEOUT, cwd=where,
                              env={**os.environ, **(env or {})})
    if done.returncode != 0 or done.stderr:
        raise Failure(f"exit status {done.returncode}\n{done.stdout}{done.stderr}")
    compare(block.output or "", done.stdout, uuids)


RUNNERS = {
    "sql": run_sql,
    "console": run_console,
    "python": lambda b, u: run_program(b, u, ["/usr/bin/python3"], ".py"),
    "javascript": lambda b, u: run_program(b, u, ["node"], ".js", {"NODE_PATH": os.path.join(UNPACKED, "share", "nodejs")}),
}


class Pooler:
    """pgbouncer in front of database app, where PGHOST then leads."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="queen.")
        self.log = os.path.join(self.dir, "log")
        config = os.path.join(self.dir, "ini")
        with open(config, "w", encoding="utf-8") as out:
            out.write(f"""[databases]
app = host={os.environ['PGHOST']} port={os.environ['PGPORT']} dbname=app user={os.environ['PGUSER']}
[pgbouncer]
listen_addr =
listen_port = {os.environ['PGPORT']}
unix_socket_dir = {self.dir}
auth_type = any
pool_mode = transaction
server_lifetime = 0
logfile = {self.log}
""")
        as_user = os.path.join(TOP, "tools", "as_user.sh")
        if os.getuid() == 0:
            shutil.chown(self.dir, subprocess.check_output([as_user, "--name"], text=True).strip())
        # a copy, because that user need not be able to read the checkout
        program = os.path.join(self.dir, "pgbouncer")
        shutil.copy(os.path.join(UNPACKED, "sbin", "pgbouncer"), program)
        self.process = subprocess.Popen([as_user, program, "-q", config], cwd=self.dir, stderr=subprocess.DEVNULL)
        os.environ["PGHOST"] = self.dir
        end = time.monotonic() + TIMEOUT
        while not os.path.exists(os.path.join(self.dir, f".s.PGSQL.{os.environ['PGPORT']}")):
            if self.process.poll() is not None or time.monotonic() > end:
                raise Failure("pgbouncer does not start: " + (open(self.log).read() if os.path.exists(self.log) else ""))
            time.sleep(0.05)

    def check(self):
        """Does a session get another connection for each transaction? Else this run proves nothing."""
        pids = subprocess.check_output(psql("-qAt", "-c", "SELECT pg_backend_pid()", "-c", "SELECT pg_backend_pid()"), text=True)
        if len(set(pids.split())) != 2:
            raise Failure(f"the pooler gave one connection to two transactions: {pids}")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.dir)


def fresh_database(server):
    """Database app as new, and no role but the bootstrap superuser's and PostgreSQL's own."""
    sql = ["DROP DATABASE IF EXISTS app WITH (FORCE)"]
    roles = subprocess.check_output(["psql", "-XAt", "-d", "postgres", "-c", "SELECT quote_ident(rolname) FROM pg_roles WHERE oid >= 16384"],
                                    text=True, env=server).split("\n")
    sql += [f"DROP OWNED BY {role}; DROP ROLE {role}" for role in roles if role] + ["CREATE DATABASE app"]
    for database, statement in [*(("postgres", s) for s in sql), ("app", "CREATE EXTENSION queen")]:
        subprocess.run(["psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", statement], check=True, env=server,
                       stderr=subprocess.PIPE)


def run(name, blocks, server, pooled):
    """Prints a line for each block; how many failed."""
    fresh_database(server)
    pooler, failed, uuids = None, 0, Uuids()
    how = "through a pooler in transaction mode" if pooled else "as it is written"
    try:
        if pooled:
            pooler = Pooler()
            pooler.check()
        for block in blocks:
            what = f"{name}:{block.line} {block.name}, {how}"
            try:
                RUNNERS[block.name](block, uuids)
                print(f"ok {what}", flush=True)
            except (Failure, subprocess.TimeoutExpired) as e:
                failed += 1
                print(f"not ok {what}", *str(e).rstrip().split("\n"), sep="\n    ", flush=True)
    finally:
        if pooler is not None:
            pooler.stop()
            os.environ["PGHOST"] = server["PGHOST"]
    return failed


def main():
    arguments = sys.argv[1:]
    flags = {a for a in arguments if a.startswith("--")}
    files = [a for a in arguments if a not in flags]
    if not files or flags - {"--pooled", "--must-fail"}:
        sys.exit("usage: examples.py [--pooled] [--must-fail] FILE...")
    if "QUEEN_SERVER_DATA" not in os.environ:
        sys.exit("examples.py drops databases and roles: run it inside tools/with_server.sh")
    os.environ.pop("PGDATABASE", None)  # an example says where it connects to
    server, failed = dict(os.environ), 0
    for file in files:
        with open(file, encoding="utf-8") as source:
            text = source.read()
        if "--must-fail" in flags:
            line = 1
            for section in re.split(r"(?m)^(?=## )", text):
                blocks = blocks_of(section, line)
                line += section.count("\n")
                if not blocks:
                    continue
                title = section.split("\n", 1)[0].strip("# ")
                with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
                    failures = run(file, blocks, server, "--pooled" in flags)
                failed += failures != 1
                print(f"{'ok' if failures == 1 else 'not ok'} noticed: {title}", flush=True)
        else:
            blocks = blocks_of(text)
            failed += run(file, blocks, server, "--pooled" in flags) if blocks else 0
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
