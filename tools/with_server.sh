#!/usr/bin/env bash
# with_server.sh [-c name=value]… COMMAND…: a private server for as long as COMMAND runs.
#
# Builds, makes a relocated copy of the server (tools/tree.sh) in a temporary directory, starts it there as an
# unprivileged user with queen preloaded and without TCP, creates database "queen" with the extension, and runs COMMAND
# as the caller in the checkout's top directory. COMMAND finds the server through PGHOST, PGPORT, PGUSER, PGDATABASE,
# its programs in PATH, its log as QUEEN_SERVER_LOG, its data directory as QUEEN_SERVER_DATA, the postmaster as
# QUEEN_SERVER_PID. The first pg_config in PATH names directories of the copy, so COMMAND may install there. Everything is
# gone afterwards; KEEP=1 keeps it.
. "$(dirname "$0")/env.sh"

settings=()
while [ "${1:-}" = -c ]; do
	settings+=("$2")
	shift 2
done
[ $# -gt 0 ] || die "usage: tools/with_server.sh [-c name=value]… COMMAND…"
cd "$TOP"
case $1 in */*) [ -x "$1" ] || die "$1 is not there (yet), or not executable" ;; esac

mk -s >/dev/null
run=$(mktemp -d "${TMPDIR:-/tmp}/queen.XXXXXX")
chmod 755 "$run"
mkdir "$run/server"
[ "$(id -u)" != 0 ] || chown "$(tools/as_user.sh --name)" "$run/server"
bin=$(tools/tree.sh "$run/tree")

export RUN_PATH=$bin RUN_HOME=$run/server
finish() {
	trap - EXIT INT TERM
	(cd / && "$TOP/tools/as_user.sh" pg_ctl -D "$run/server/data" -m fast -w stop >/dev/null 2>&1) || true
	if [ -n "${KEEP:-}" ]; then say "kept: $run"; else rm -rf "$run"; fi
}
trap finish EXIT
trap 'exit 130' INT TERM

server() { (cd "$run/server" && "$TOP/tools/as_user.sh" "$@"); }
server initdb -D "$run/server/data" -U postgres --auth=trust --no-locale --encoding=UTF8 --no-instructions >"$run/initdb.log" 2>&1 ||
	{ cat "$run/initdb.log"; die "initdb failed"; }
{
	say "shared_preload_libraries = 'queen'"
	say "listen_addresses = ''"
	say "unix_socket_directories = '$run/server'"
	say "max_connections = 200"
	say "shared_buffers = 256MB"
	say "max_wal_size = 4GB"
	say "log_line_prefix = '%m [%p] %b '"
	for s in "${settings[@]:+${settings[@]}}"; do [ -z "$s" ] || say "${s%%=*} = '${s#*=}'"; done
} >"$run/extra.conf"
server sh -c 'cat >>data/postgresql.conf' <"$run/extra.conf"
server pg_ctl -D "$run/server/data" -l "$run/server/log" -w start >"$run/start.log" 2>&1 ||
	{ cat "$run/start.log" "$run/server/log"; die "the server does not start"; }

export PGHOST=$run/server PGPORT=5432 PGUSER=postgres PGDATABASE=queen QUEEN_SERVER_LOG=$run/server/log QUEEN_SERVER_DATA=$run/server/data
QUEEN_SERVER_PID=$(server head -n 1 "$run/server/data/postmaster.pid")
export QUEEN_SERVER_PID
export PATH="$bin:/usr/bin:$PATH" # apt's packages are for /usr/bin/python3, whatever other there is
psql -qX -d postgres -c 'CREATE DATABASE queen' && psql -qX -c 'CREATE EXTENSION queen'

rc=0
"$@" || rc=$?
if grep -E 'PANIC:|was terminated by signal (6|11)|TRAP:' "$run/server/log"; then
	say "with_server.sh: the server crashed, see above" >&2
	rc=1
fi
exit "$rc"
