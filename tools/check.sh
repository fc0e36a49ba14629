#!/usr/bin/env bash
# check.sh: every test there is, each suite counted. The last line is "N passed, N failed"; the exit status says the same.
#
#   SUITES="regress tap"   only these of: lint tidy clang build symbols unit asan tsan fuzz regress isolation
#                          regress_hotlist isolation_hotlist tap docs soak
#   TESTS="push 001_crash" only these tests: names in test/sql, test/specs or test/t; alone, it picks the suites too
#   FUZZ_SECONDS=20        how long to fuzz              PROVE_JOBS=2   TAP files at a time
#   SOAK_SECONDS=16        how long to soak              SEED=1         what the soak draws from (tools/soak.sh)
#   SUITE_TIMEOUT=1200     seconds until a suite of the server is stopped and has failed
#   KEEP=1                 keep the temporary directory that the servers ran in
#   QUEEN_DUMPS=DIR        021_dump leaves its dump in DIR/MAJOR; 022_restore restores those of older versions that are there
#
# On a Debian other than 12 everything runs but what clang-format and clang-tidy 14 judge: another version's findings are not
# ours (lint says that it skips the layout, tidy counts nothing). One expected/NAME.out serves all versions of the server: a
# test prints nothing that differs between them.
#
# Servers run as an unprivileged user (tools/as_user.sh) in a temporary directory with a short path, on a relocated copy
# of PostgreSQL (tools/tree.sh) and a copy of test/, so neither the system's server is touched nor must that user be able
# to read the checkout. What they leave (logs, diffs) is in build/check afterwards. Whatever the tests say, a server log
# that tells of a crash fails the run.
#
# Where tests lie: test/sql/NAME.sql with expected/NAME.out; test/specs/NAME.spec with expected/NAME.out (as
# pg_isolation_regress wants it, so the names of both differ); test/t/NNN_name.pl; test/unit; test/docs; test/modules/queen_test.
# Order and groups: test/regress.schedule and test/isolation.schedule in pg_regress's format, else by name, one by one.
# Settings of the regress and isolation servers: test/regress.conf; the same tests run once more, as regress_hotlist and
# isolation_hotlist, with test/hotlist.conf added: no answer may depend on where candidates come from. TAP tests make their own servers.
. "$(dirname "$0")/env.sh"
cd "$TOP"

all="lint build symbols tidy unit asan tsan fuzz regress isolation regress_hotlist isolation_hotlist tap docs soak"

# picked FILES…: the names of those files that TESTS asks for
picked() {
	local n
	for n in $(names "$@"); do
		case " ${TESTS:-$n} " in *" $n "* | *" $n.sql "* | *" $n.spec "* | *" $n.pl "* | *"/$n.pl "*) say "$n" ;; esac
	done
}

if [ -n "${TESTS:-}" ] && [ -z "${SUITES:-}" ]; then
	SUITES=build
	[ -z "$(picked test/sql/*.sql)" ] || SUITES+=" regress regress_hotlist"
	[ -z "$(picked test/specs/*.spec)" ] || SUITES+=" isolation isolation_hotlist"
	[ -z "$(picked test/t/*.pl)" ] || SUITES+=" tap"
fi
: "${SUITES:=$all}"
suites=
for s in lint clang build symbols tidy unit asan tsan fuzz regress isolation regress_hotlist isolation_hotlist tap docs soak; do
	case " $SUITES " in *" $s "*) suites+=" $s" ;; esac
done
for s in $SUITES; do
	case " $suites " in *" $s "*) ;; *) die "no such suite: $s" ;; esac
done

sets=build
case $suites in *lint* | *tidy*) sets+=" lint" ;; esac
case $suites in *unit* | *asan* | *tsan* | *fuzz* | *tap* | *clang*) sets+=" test" ;; esac
case $suites in *docs*) sets+=" docs" ;; esac
# shellcheck disable=SC2086 # a list
tools/need.sh $sets

# ---- the directory that servers run in ----

out=$TOP/build/check
rm -rf "$out"
mkdir -p "$out"
run=$(mktemp -d "${TMPDIR:-/tmp}/queen.XXXXXX")
chmod 755 "$run"
mkdir "$run/out"
[ "$(id -u)" != 0 ] || chown "$(tools/as_user.sh --name)" "$run/out"
bin=

stop_servers() { # those that a test that was cut short has left
	local f pid
	for f in $(find "$run/out" -name postmaster.pid 2>/dev/null); do
		pid=$(head -n 1 "$f") && kill -QUIT "$pid" 2>/dev/null || true
	done
}
collect() {
	stop_servers
	(cd "$run/out" && find . -type f \( -name '*.log' -o -name 'regression.*' -o -path '*/results/*' -o -name 'regress_log_*' \) \
		-exec cp --parents -t "$out" {} + 2>/dev/null) || true
}
finish() {
	trap - EXIT
	collect
	if [ -n "${KEEP:-}" ]; then say "kept: $run"; else rm -rf "$run"; fi
}
trap finish EXIT
trap 'exit 130' INT TERM

as=$TOP/tools/as_user.sh
tree() { # built once, when the first suite needs it; the test files go along
	[ -f "$run/bin" ] || { tools/tree.sh "$run/tree" >"$run/bin.tmp" && mkdir -p "$run/src" && cp -RL test "$run/src/" && mv "$run/bin.tmp" "$run/bin"; }
	bin=$(cat "$run/bin")
	[ "$(id -u)" != 0 ] || chown "$("$as" --name)" "$run/tree$(pg --sharedir)/extension" # 020_upgrade adds scripts of its own
	pgxs=$(cd "$(dirname "$(pg --pgxs)")/.." && pwd)
	export RUN_PATH=$bin RUN_HOME=$run/out
	export PGISOLATIONTIMEOUT=${PGISOLATIONTIMEOUT:-60} # seconds for one step; a hang is a failure, and soon
}
# as_server_user DIR COMMAND…: as the servers' user, in DIR, not longer than SUITE_TIMEOUT
as_server_user() {
	local dir=$1
	shift
	(cd "$dir" && exec timeout --kill-after=30 "${SUITE_TIMEOUT:-1200}" "$as" "$@")
}

# ---- the suites: each prints, and returns zero if all is well ----

suite_lint() { tools/lint.sh; }
suite_tidy() { tools/tidy.sh; }
suite_clang() { CXX=clang++ mk -s && say "ok clang++ builds"; }
suite_build() { mk -s && say "ok $(head -c 60 build/flags | cut -d' ' -f1) builds"; }
suite_symbols() { tools/symbols.sh; }

unit() {
	[ -f test/unit/Makefile ] || { say "no tests yet"; return 0; }
	mk -s -C test/unit "$@"
}
suite_unit() { unit check; }
suite_asan() { unit check-asan; }
# The thread sanitizer of clang 14 cannot map its shadow where the kernel randomises more bits than it knows.
suite_tsan() { if setarch -R true 2>/dev/null; then MK_WRAP="setarch -R" unit check-tsan; else unit check-tsan; fi; }
suite_fuzz() { unit fuzz "SECONDS=${FUZZ_SECONDS:-20}" && say "ok fuzz"; }

# pg_regress_suite PROGRAM SUITE FILES…
pg_regress_suite() {
	local program=$1 suite=$2 kind=${2%_hotlist} conf=() tests
	shift 2
	tests=$(picked "$@")
	[ -n "$tests" ] || { say "no tests yet"; return 0; }
	tree
	[ ! -f test/regress.conf ] || conf=("--temp-config=$run/src/test/regress.conf")
	[ "$suite" = "$kind" ] || conf=("--temp-config=$run/src/test/hotlist.conf")
	# shellcheck disable=SC2086 # a list
	if [ -z "${TESTS:-}" ] && [ -f "test/$kind.schedule" ]; then set -- "--schedule=$run/src/test/$kind.schedule"; else set -- $tests; fi
	local dir=$run/out/$suite rc=0
	as_server_user "$run/out" mkdir -p "$dir"
	as_server_user "$dir" "$pgxs/test/$program" --bindir="$bin" --inputdir="$run/src/test" --outputdir="$dir" \
		--temp-instance="$dir/instance" --no-locale --encoding=UTF8 "${conf[@]}" "$@" || rc=$?
	[ "$rc" = 0 ] || head -n 500 "$dir/regression.diffs" 2>/dev/null || tail -n 50 "$dir"/log/*.log 2>/dev/null || true
	return "$rc"
}
suite_regress() { pg_regress_suite regress/pg_regress regress test/sql/*.sql; }
suite_isolation() { pg_regress_suite isolation/pg_isolation_regress isolation test/specs/*.spec; }
suite_regress_hotlist() { pg_regress_suite regress/pg_regress regress_hotlist test/sql/*.sql; }
suite_isolation_hotlist() { pg_regress_suite isolation/pg_isolation_regress isolation_hotlist test/specs/*.spec; }

suite_tap() {
	local tests dir=$run/out/tap rc=0
	tests=$(picked test/t/*.pl)
	[ -n "$tests" ] || { say "no tests yet"; return 0; }
	tree
	as_server_user "$run/out" mkdir -p "$dir"
	export TESTDIR=$dir TESTLOGDIR=$dir/tmp_check/log TESTDATADIR=$dir/tmp_check top_builddir=$dir
	export PG_REGRESS=$pgxs/test/regress/pg_regress PG_TEST_PORT_DIR=$dir/portlock
	local exporter=build/unpacked/usr/bin/prometheus-postgres-exporter # not there where there is no Debian
	[ ! -x "$exporter" ] || { cp "$exporter" "$run/" && export QUEEN_EXPORTER=$run/${exporter##*/}; }
	local dumps=${QUEEN_DUMPS:-}
	if [ -n "$dumps" ]; then
		mkdir -p "$dumps"
		rm -rf "${dumps:?}/$PG_MAJOR"
		as_server_user "$run/out" mkdir dumps
		cp -R "$dumps/." "$run/out/dumps"
		export QUEEN_DUMPS=$run/out/dumps
	fi
	# shellcheck disable=SC2046,SC2086 # lists
	as_server_user "$run/src/test" prove -j"${PROVE_JOBS:-2}" --timer -I "$pgxs/test/perl" -I "$run/src/test/t" \
		$(printf 't/%s.pl ' $tests) || rc=$?
	[ -z "$dumps" ] || [ ! -d "$run/out/dumps/$PG_MAJOR" ] || cp -R "$run/out/dumps/$PG_MAJOR" "$dumps/"
	[ "$rc" = 0 ] || for f in "$dir"/tmp_check/log/regress_log_*; do
		if grep -qE 'not ok |# Looks like|Bail out' "$f"; then say "==== ${f##*/}" && tail -n 100 "$f"; fi
	done
	return "$rc"
}

suite_docs() { timeout --kill-after=30 "${SUITE_TIMEOUT:-1200}" tools/with_server.sh test/docs/run.sh; }

suite_soak() { SOAK_SECONDS=${SOAK_SECONDS:-16} timeout --kill-after=30 "${SUITE_TIMEOUT:-1200}" tools/soak.sh; }

# ---- counting ----

sum() { awk '{ n += $1 } END { print n + 0 }'; }

# count_LOG → passed failed, from whatever runner's closing lines are in a suite's output
count() {
	local log=$1 p f failed_tests
	case $2 in
		lint | symbols | tidy | build | clang | fuzz | docs | soak)
			p=$(grep -c '^ok ' "$log") f=$(grep -c '^not ok ' "$log")
			;;
		unit | asan | tsan)
			p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests\{0,1\}\..*/\1/p' "$log" | sum)
			f=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) tests\{0,1\}, listed below.*/\1/p' "$log" | sum)
			;;
		regress | isolation | regress_hotlist | isolation_hotlist)
			p=$(sed -n 's/^[ #]*All \([0-9]*\) tests passed.*/\1/p' "$log" | sum)
			f=$(sed -n 's/^[ #]*\([0-9]*\) of [0-9]* tests failed.*/\1/p' "$log" | sum)
			[ "$f" = 0 ] || p=$(sed -n 's/^[ #]*\([0-9]*\) of \([0-9]*\) tests failed.*/\2 \1/p' "$log" | awk '{ print $1 - $2 }')
			;;
		tap)
			p=$(sed -n 's/^Files=[0-9]*, Tests=\([0-9]*\),.*/\1/p' "$log" | sum)
			# "t/x.pl (Wstat: 256 Tests: 3 Failed: 1)"; a file that dies may have no failed test
			read -r f failed_tests < <(sed -n 's/^t\/.*(Wstat: .*Tests: [0-9]* Failed: \([0-9]*\)).*/\1/p' "$log" |
				awk '{ f += ($1 > 0) ? $1 : 1; t += $1 } END { print f + 0, t + 0 }')
			p=$((p - failed_tests))
			;;
	esac
	say "$p $f"
}

total_passed=0 total_failed=0 table=
record() { # name passed failed seconds
	total_passed=$((total_passed + $2)) total_failed=$((total_failed + $3))
	table+=$(printf '%-17s %5d passed, %3d failed %6d s' "$1" "$2" "$3" "$4")$'\n'
}

for s in $suites; do
	say "==== $s"
	start=$SECONDS
	set +e
	(
		set -e
		trap - EXIT
		"suite_$s"
	) 2>&1 | tee "$out/$s.log"
	rc=${PIPESTATUS[0]}
	read -r p f < <(count "$out/$s.log" "$s")
	set -e
	if [ "$rc" = 0 ] && [ "$p" = 0 ] && ! grep -qE '^(no tests yet|skipped: |Result: NOTESTS)' "$out/$s.log"; then p=1; fi # it ran, and does not count
	if [ "$rc" != 0 ] && [ "$f" = 0 ]; then f=1; fi
	record "$s" "$p" "$f" $((SECONDS - start))
	if [ "$s" = build ] && [ "$f" != 0 ]; then break; fi # nothing after it makes sense
done

# A client may notice nothing of a crash: the servers' own logs decide.
collect
logs=$(find "$out" -mindepth 2 -name '*.log' | wc -l)
if [ "$logs" -gt 0 ]; then
	say "==== logs"
	hits=$(find "$out" -mindepth 2 -name '*.log' -exec \
		grep -HnE 'PANIC: |was terminated by signal (6|11)|TRAP:|still waiting for backend with PID [0-9]+ to accept ProcSignalBarrier' {} + || true)
	if [ -n "$hits" ]; then
		say "${hits//$TOP\//}"
		record logs 0 1 0
	else
		say "$logs server and client logs, no crash in them"
		record logs 1 0 0
	fi
fi

say
say "${table%$'\n'}"
say "$total_passed passed, $total_failed failed"
[ "$total_failed" = 0 ] && [ "$total_passed" -gt 0 ]
