#!/usr/bin/env bash
# demo.sh: a real event file through a queue; "make demo" runs it on a private server. demo.sh --help tells the rest.
set -euo pipefail

case ${1:-} in
	-h | --help) exec cat "$(dirname "$0")/README.md" ;;
	'') ;;
	*) echo "usage: [INPUT=file] [KEY=path|column] [RATE=events/s] make demo   (demo/demo.sh --help)" >&2 && exit 2 ;;
esac
[ -n "${PGHOST:-}" ] || { echo "demo.sh: no server named by PGHOST; \"make demo\" starts one" >&2 && exit 2; }

# Debian's python3, because the package python3-psycopg2 is for no other
exec /usr/bin/python3 -B "$(dirname "$0")/run.py"
