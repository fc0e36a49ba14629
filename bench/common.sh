# common.sh: what the benchmarks share; to be sourced by a script that "make bench" runs, on a server of its own.
#
# Settings for all of them: REPS (3) interleaved pairs, SECONDS_EACH (5) a run, SYNC ("on off": which synchronous_commit).
# Sets dir, a directory that is gone afterwards: scripts are dir/NAME.sql, samples dir/NAME.sample.
#
# Processor time of the server is that of the postmaster, of its living children, and of those that it has waited for
# (utime, stime, cutime, cstime of /proc/PID/stat): all that the server did in the time of a run, checkpointer and
# autovacuum too. The kernel keeps it exactly and shows it in steps of 10 ms a process, a per cent or so of a run.
# shellcheck shell=bash disable=SC2034
set -euo pipefail

each=${SECONDS_EACH:-5} reps=${REPS:-3} syncs=${SYNC:-on off}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
[ -n "${QUEEN_SERVER_PID:-}" ] || die "no server of its own: run it by \"make bench\""

# answer SQL: the one value
answer() { psql -qXAt -v ON_ERROR_STOP=1 -c "$1"; }

# ---- input: 100 messages of some 200 bytes, no two alike ----

make_messages() {
	psql -qX -v ON_ERROR_STOP=1 <<'SQL'
SET client_min_messages = warning;
CREATE TABLE IF NOT EXISTS messages (n int, message jsonb);
INSERT INTO messages SELECT n, jsonb_build_object('order', 1000000 + n, 'customer', md5(n::text), 'state', 'paid',
	'amount', n * 7.25, 'note', 'as an application would push it', 'token', md5((n * 31)::text))
	FROM generate_series(1, 100) n WHERE NOT EXISTS (SELECT FROM messages);
SQL
}

# ---- pgmq ----

# Installed from PGMQ as its Makefile does, without writing to its sources. Sets version.
install_pgmq() {
	local source_dir=$PGMQ extensions
	[ -f "$source_dir/pgmq.control" ] || source_dir+=/pgmq-extension
	[ -f "$source_dir/pgmq.control" ] || die "PGMQ=$PGMQ: no pgmq.control there"
	version=$(sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" "$source_dir/pgmq.control")
	extensions=$(pg_config --sharedir)/extension
	rm -f "$extensions"/pgmq.control "$extensions"/pgmq--*.sql
	install -m 644 "$source_dir/pgmq.control" "$extensions/"
	install -m 644 "$source_dir/sql/pgmq.sql" "$extensions/pgmq--$version.sql"
}

# ---- runs ----

wal_position() { answer "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"; }

# server_cpu: microseconds. A child that ends while we look would be counted twice or not at all: then look again.
server_cpu() {
	local stat=/proc/$QUEEN_SERVER_PID/stat us
	until us=$({ cat "$stat" /proc/[0-9]*/stat "$stat" 2>/dev/null || true; } |
		awk -v server="$QUEEN_SERVER_PID" -v ticks="$(getconf CLK_TCK)" '
			{ id = $1; sub(/^.*\) /, "") } # a name may hold blanks
			id == server && ++seen == 1 { ended = $14 + $15; sum += $12 + $13 + ended; next }
			id == server { moved = ended != $14 + $15; next }
			$2 == server { sum += $12 + $13 }
			END { printf "%.0f\n", sum * 1e6 / ticks; exit moved }'); do :; done
	printf '%s\n' "$us"
}

# run SCRIPT CLIENTS SYNC OPTION…: pgbench; what it reports is then in dir/report
run() {
	local script=$1 clients=$2 sync=$3
	shift 3
	PGOPTIONS="-c synchronous_commit=$sync" pgbench -n -M prepared -c "$clients" -j 2 -f "$dir/$script.sql" "$@" \
		>"$dir/report" 2>"$dir/errors" || { cat "$dir/errors" >&2; die "pgbench of $script failed"; }
}

# reported NAME: a figure of that report
reported() { sed -n "s/^$1 *[=:] *\([0-9.]*\).*/\1/p" "$dir/report"; }

# measure SCRIPT CLIENTS SYNC OPTION…: a run of $each seconds. Sets rate (scripts a second), scripts (how many), seconds,
# wal (bytes), server_us and client_us (processor time of the server and of pgbench).
measure() {
	local wal_before cpu_before TIMEFORMAT='%U %S'
	wal_before=$(wal_position) cpu_before=$(server_cpu)
	{ time run "$@" -T "$each" 2>&3; } 3>&2 2>"$dir/time"
	server_us=$(($(server_cpu) - cpu_before)) wal=$(($(wal_position) - wal_before))
	client_us=$(awk '{ printf "%.0f", ($1 + $2) * 1e6 }' "$dir/time")
	rate=$(reported tps) scripts=$(reported "number of transactions actually processed")
	seconds=$(quotient "$scripts" "$rate")
}

# ---- samples and figures ----

quotient() { awk -v a="$1" -v b="$2" -v digits="${3:-6}" 'BEGIN { if (b > 0) printf "%.*f\n", digits, a / b; else print "–" }'; }

forget() { rm -f "$dir"/*.sample; }
note() { printf '%s\n' "$2" >>"$dir/$1.sample"; } # note NAME VALUE
sorted() { sort -g "$dir/$1.sample"; }
last() { tail -n 1 "$dir/$1.sample"; }
median() { sorted "$1" | awk -v digits="${2:-0}" '{ v[NR] = $1 } END { printf "%.*f\n", digits, v[int((NR + 1) / 2)] }'; } # median NAME [DIGITS]
range() { sorted "$1" | awk 'NR == 1 { least = $1 } END { printf "%s – %s\n", least, $1 }'; }
row() { printf '|' && printf ' %s |' "$@" && echo; } # of a Markdown table
head_row() { row "$@" && row "${@//*/---}" | tr -d ' '; }
