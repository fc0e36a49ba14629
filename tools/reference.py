#!/usr/bin/env python3
"""Writes the generated parts of docs/reference.md from the catalog of a fresh install; --check only says whether they are current.

Runs inside tools/with_server.sh (make reference). The file is written by hand but for what stands between a line
"<!-- generated: KIND ARGUMENTS -->" and the next "<!-- end -->". Kinds:

    functions NAME...   signature, comment, where each may run, and who may call it; "*" stands for all that no other line names
    options KIND        options of a queue of a kind, with the defaults that a new queue has; their meaning is queen.configure's comment
    settings            from pg_settings
    objects             views, types, tables with a comment; what is left is named

Where a function may run is not told but tried: it is called with nulls, which no function gets to look at before it has
looked where it is (one in PL/pgSQL may, and then counts as one that writes). Beyond the generated parts the check wants every SQLSTATE that the sources raise in the file.
"""
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FILE = os.path.join(TOP, "docs", "reference.md")
PART = re.compile(r"(<!-- generated: (\w+)((?: [\w*]+)*) -->\n)(.*?)(<!-- end -->)", re.S)
# their states are the server's business, or name a fault of the library's
UNTOLD = {"ERRCODE_INTERNAL_ERROR"}


def rows(query):
    """What a query answers, as a list of lists."""
    out = subprocess.check_output(["psql", "-XqAt", "-F", "\x1f", "-R", "\x1e", "-v", "ON_ERROR_STOP=1", "-d", "reference", "-c", query],
                                  text=True)
    return [row.split("\x1f") for row in out.rstrip("\n").split("\x1e") if row]


def prepare():
    for database, statement in (("postgres", "DROP DATABASE IF EXISTS reference"), ("postgres", "CREATE DATABASE reference"),
                                ("reference", "CREATE EXTENSION queen")):
        subprocess.run(["psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", statement], check=True,
                       env={**os.environ, "PGOPTIONS": "-c client_min_messages=warning"})


def state_of(begin, call):
    """The SQLSTATE of a call in a transaction that begins so."""
    script = f"{begin};\n{call};\n\\echo :SQLSTATE\nROLLBACK;\n"
    out = subprocess.run(["psql", "-XqAt", "-d", "reference"], input=script, capture_output=True, text=True, check=True).stdout
    return out.rstrip("\n").split("\n")[-1]


def where(call, kind, language):
    if kind == "p" and state_of("BEGIN", call) == "2D000":
        return "Commits by itself."
    read_only = state_of("BEGIN READ ONLY", call)
    # others than C look at their arguments first
    if read_only == "00000" or (language == "c" and read_only != "25006"):
        return "Reads only."
    if state_of("BEGIN ISOLATION LEVEL REPEATABLE READ", call) == "25000":
        return "Writes; READ COMMITTED only."
    return "Writes."


class Functions:
    def __init__(self, named):
        self.all = {}
        for name, signature, nulls, kind, result, comment, language in rows("""
                SELECT proname, pg_get_function_arguments(p.oid),
                  (SELECT string_agg('NULL::' || format_type(t, NULL), ', ' ORDER BY i) FROM unnest(proargtypes) WITH ORDINALITY a (t, i)),
                  prokind, pg_get_function_result(p.oid), obj_description(p.oid, 'pg_proc'), lanname
                FROM pg_proc p JOIN pg_language l ON l.oid = prolang WHERE pronamespace = 'queen'::regnamespace AND prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype) ORDER BY p.oid"""):
            self.all[name] = (signature, nulls, kind, result, comment, language)
        self.right_of = dict(rows("SELECT routine, right_of FROM queen.list_rights()"))
        self.left = [name for name in self.all if name not in named]

    def text(self, names):
        out = []
        for name in names:
            if name not in self.all:
                sys.exit(f"docs/reference.md names queen.{name}(), which is not there")
            signature, nulls, kind, result, comment, language = self.all[name]
            outs = [a[4:] for a in signature.split(", ") if a.startswith("OUT ")]
            arguments = [a for a in split_arguments(signature) if not a.startswith("OUT ")]
            if outs:
                result = f"SETOF ({', '.join(outs)})" if result.startswith("SETOF") else f"({', '.join(outs)})"
            head = f"queen.{name}({', '.join(arguments)})" + (f" → {result}" if kind == "f" else "")
            call = f"CALL queen.{name}({nulls})" if kind == "p" else f"SELECT * FROM queen.{name}({nulls})"
            if name == "configure":
                comment = comment.split("\n- ")[0].rstrip(":") + ": see [below](#options-of-a-queue)."
            out.append(f"#### {name}\n```\n{'CALL ' if kind == 'p' else ''}{wrapped(head)}\n```\n{comment}\n\n*{where(call, kind, language)} Right: {self.right_of[name]}.*\n")
        return "\n".join(out)


def split_arguments(signature):
    """At the commas that are not in a quoted default."""
    return [a for a in re.split(r", (?=(?:[^']*'[^']*')*[^']*$)", signature) if a]


def wrapped(text, width=116):
    text = re.sub(r"(NULL|'[^']*')::[a-z ]+(?=[,)])", r"\1", text).replace("timestamp with time zone", "timestamptz")
    lines = [""]
    for word in re.split(r"(?<=,) ", text):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("    " + word)
        else:
            lines[-1] += (" " if lines[-1] else "") + word
    return "\n".join(lines)


def table(head, lines):
    escaped = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *escaped]) + "\n"


def options_text(kind):
    comment = rows("SELECT obj_description('queen.configure(text, jsonb)'::regprocedure, 'pg_proc')")[0][0]
    part = re.search(rf"Options of a {kind} queue:\n((?:- .*(?:\n|$))*)", comment)[1]
    meaning = dict(re.findall(r"^- (\w+): (.*)$", part, re.M))
    subprocess.run(["psql", "-Xq", "-d", "reference", "-c", f"SELECT queen.create_queue('{kind}', '{kind}')"], check=True, stdout=subprocess.DEVNULL)
    defaults = rows(f"SELECT key, value FROM queen.list_queues(), jsonb_each_text(options) WHERE queue = '{kind}'")
    if {name for name, _ in defaults} != set(meaning):
        sys.exit(f"queen.configure's comment does not have the options of a {kind} queue: {sorted({n for n, _ in defaults} ^ set(meaning))}")
    return table(["option", "default", "meaning"], [[f"`{n}`", f"`{dict(defaults)[n]}`", meaning[n]] for n in meaning])


def settings_text():
    who = {"user": "everybody", "superuser": "superusers", "sighup": "the server's configuration", "postmaster": "the server's start"}
    lines = []
    for name, value, unit, low, high, context, short, extra, kind in rows("""
            SELECT name, boot_val, coalesce(unit, ''), coalesce(min_val, ''), coalesce(max_val, ''), context, short_desc, coalesce(extra_desc, ''), vartype
            FROM pg_settings WHERE name LIKE 'queen.%' ORDER BY name"""):
        span = f"{low} to {high} {unit}" if kind == "integer" else ""
        lines.append([f"`{name}`", f"{value} {unit}".strip() if value else "empty", span, who[context], f"{short} {extra}".strip()])
    return table(["setting", "default", "range", "who sets it", "meaning"], lines)


def objects_text():
    out, untold = [], []
    for name, kind, comment, columns in rows("""
            SELECT relname, relkind, coalesce(obj_description(c.oid, 'pg_class'), obj_description(c.reltype, 'pg_type'), ''),
              (SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute
               WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped)
            FROM pg_class c WHERE relnamespace = 'queen'::regnamespace AND relkind IN ('r', 'v', 'S', 'c', 'm', 'p')
            ORDER BY position(relkind::text in 'cvr'), c.oid"""):
        if comment:
            what = {"c": "type", "v": "view", "r": "table"}[kind]
            out.append(f"#### {name}\n```\n{wrapped(f'{what} queen.{name} ({columns})')}\n```\n{comment}\n")
        else:
            untold.append(f"`{name}`")
    untold += [f"`{name}()`" for name, in rows("""SELECT proname FROM pg_proc WHERE pronamespace = 'queen'::regnamespace
            AND prorettype IN ('trigger'::regtype, 'event_trigger'::regtype) ORDER BY oid""")]
    out.append(f"The rest is the extension's own, written and read by its code alone: {', '.join(untold)}.\n")
    return "\n".join(out)


def states():
    """SQLSTATEs that the sources raise, not those that they compare with: those with a name in PostgreSQL's errcodes.txt, and class QN."""
    share = subprocess.check_output([os.environ.get("PG_CONFIG", "pg_config"), "--sharedir"], text=True).strip()
    names = dict(re.findall(r"^(\w{5})\s+\w\s+(ERRCODE_\w+)", open(os.path.join(share, "errcodes.txt")).read(), re.M))
    state_of_name = {name: state for state, name in names.items()}
    found = set()
    for folder, _, files in os.walk(os.path.join(TOP, "src")):
        for file in files:
            if file.endswith((".h", ".cpp")):
                text = open(os.path.join(folder, file), encoding="utf-8").read()
                found |= {state_of_name[n] for n in set(re.findall(r"(?<!case )(?<!== )\bERRCODE_(?!TO_CATEGORY)[A-Z_]+", text)) - UNTOLD}
                found |= {"".join(s) for s in re.findall(r"MAKE_SQLSTATE\('(.)', '(.)', '(.)', '(.)', '(.)'\)", text)}
    return found


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit("usage: reference.py [--check]")
    if "QUEEN_SERVER_DATA" not in os.environ:
        sys.exit("reference.py makes and drops a database: run it inside tools/with_server.sh")
    old = open(FILE, encoding="utf-8").read()
    prepare()
    named = {n for _, kind, names, _, _ in PART.findall(old) if kind == "functions" for n in names.split()}
    functions = Functions(named)
    made = {
        "functions": lambda names: functions.text([n for a in names for n in (functions.left if a == "*" else [a])]),
        "options": lambda kinds: options_text(kinds[0]),
        "settings": lambda _: settings_text(),
        "objects": lambda _: objects_text(),
    }
    new = PART.sub(lambda m: m[1] + made[m[2]](m[3].split()) + m[5], old)
    wrong = []
    kinds = [kind for _, kind, _, _, _ in PART.findall(old)]
    wrong += [f"nothing is generated for {kind}" for kind in made if kind not in kinds]
    if functions.left and "*" not in named:
        wrong.append(f"functions that are not in it: {' '.join(functions.left)}")
    wrong += [f"SQLSTATE {state} is raised and not in it" for state in sorted(states()) if f"`{state}`" not in new]
    if check and new != old:
        wrong.append('it is not what the catalog says: "make reference" writes it')
    elif not check:
        with open(FILE, "w", encoding="utf-8") as out:
            out.write(new)
    print("not ok docs/reference.md is current" if wrong else "ok docs/reference.md is current", *wrong, sep="\n    ")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
