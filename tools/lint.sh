#!/usr/bin/env bash
# lint.sh: the walls and bans that a compiler does not know. Prints "ok NAME" or "not ok NAME" with what was found.
#
# Rules of the C++ text are in lint_src.pl, of the SQL in lint_sql.pl; clang-tidy is a step of its own (tidy.sh).
# LINT_SKIP="format headers" leaves out the slow or the missing.
. "$(dirname "$0")/env.sh"
cd "$TOP"

skip() { case " ${LINT_SKIP:-} " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }
files() { find "$@" -type f ! -path '*/build/*' 2>/dev/null | sort; } # files DIR… -name …
cxx() { for d in "$@"; do [ ! -d "$d" ] || find "$d" -type f \( -name '*.h' -o -name '*.cpp' \) ! -path '*/build/*'; done | sort; }

# ---- text rules ----

perl tools/lint_src.pl $(cxx src) || failed=1
perl tools/lint_sql.pl $(files sql -name '*.sql') || failed=1

verdict "no file over 700 lines" "$(for f in $(cxx src test) sql/*.sql $(files sql/upgrade tools test/t test/specs test/sql bench demo); do
	n=$(wc -l <"$f") && [ "$n" -le 700 ] || say "$f: $n lines"
done)"

verdict "no unfinished marks" "$(grep -rnIwE 'TO''DO|FIX''ME|X''XX' --exclude-dir=build --exclude-dir=.git \
	Makefile mk src sql test tools bench demo docs .ci 2>/dev/null || true)"

# ---- tests ----

verdict "every test has what it expects, and is scheduled" "$(
	for kind in sql:regress:sql specs:isolation:spec; do
		IFS=: read -r dir schedule ext <<<"$kind"
		for n in $(names test/"$dir"/*."$ext"); do
			[ -e "expected/$n.out" ] || [ -e "expected/${n}_1.out" ] || say "test/$dir/$n.$ext: no expected/$n.out"
			[ ! -e "test/$schedule.schedule" ] || grep -qE "^test:(.*[[:space:]])?$n([[:space:]]|\$)" "test/$schedule.schedule" ||
				say "test/$dir/$n.$ext: not in test/$schedule.schedule"
		done
	done
	for f in expected/*.out; do
		n=$(basename "$f" .out)
		[ ! -e "$f" ] || [ -e "test/sql/${n%_[0-9]}.sql" ] || [ -e "test/specs/${n%_[0-9]}.spec" ] ||
			[ -e "test/sql/$n.sql" ] || [ -e "test/specs/$n.spec" ] || say "$f: no such test"
	done
	# pg_isolation_regress reads the same folder of expected files
	{ names test/sql/*.sql && names test/specs/*.spec; } | sort | uniq -d | sed 's/$/: a name of both a regress and an isolation test/'
	for f in test/t/*; do case $f in *.pl | *.pm | 'test/t/*') ;; *) say "$f: neither .pl nor .pm, nobody runs it" ;; esac; done
)"

verdict "every mutant applies" "$(tools/mutants.sh --check)"

# ---- what was released stays as it was ----

verdict "released scripts are frozen" "$(
	sums=sql/released/SHA256SUMS
	for f in sql/released/queen--*.sql sql/upgrade/queen--*.sql; do
		target=${f##*--} # an update to a version that is not released may still change
		if [ -e "$f" ] && [ -e "sql/released/queen--$target" ]; then
			grep -qsx "$(sha256sum "$f")" "$sums" || say "$f: not as $sums has it"
		fi
	done
	[ ! -e "$sums" ] || sha256sum --quiet -c "$sums" 2>&1 || true
	if script=$(mk -s print-install-script) && [ -e "sql/released/$script" ]; then
		cmp "$script" "sql/released/$script" 2>&1 || say "a change of sql/ after a release needs a new default_version and an update script"
	fi
)"

# ---- every header compiles alone; those of the core where no header of the server can be found ----

if ! skip headers; then
	core=$(mk -s print-core-compile) server=$(mk -s print-server-compile)
	compile_alone() { # the first line of what the compiler says
		local flags=$server
		case $1 in src/core/*) flags=$core ;; esac
		# shellcheck disable=SC2086 # a command with its options
		if ! msg=$($flags -fsyntax-only -x c++ -include "$1" /dev/null 2>&1); then
			say "$1: $(grep -m 1 -E 'error|warning' <<<"$msg" || true)"
		fi
	}
	export core server
	export -f compile_alone say
	verdict "every header stands alone" "$(cxx src | grep "\.h$" | grep -vx src/server/compat.h | # that is a part of pg.h
		xargs -r -P "$JOBS" -I{} bash -c 'compile_alone {}' | sort)"
fi

# ---- layout of the text ----

if ! skip format; then
	if our_clang clang-format; then
		verdict "clang-format" "$(cxx src test | xargs -r clang-format --dry-run 2>&1 | grep -E 'warning|error' | head -n 50 || true)"
	elif [ -n "${CI:-}" ] && ! command -v clang-format >/dev/null; then
		verdict "clang-format" "clang-format is not installed"
	else
		say "(no clang-format $CLANG_VERSION here: skipped)"
	fi
fi
verdict "links between documents lead somewhere" "$(
	for f in $(files . -name '*.md' | grep -v '/build/'); do
		{ grep -oE '\]\([^)#:]+' "$f" || true; } | sed 's/^](//' | grep -v '^https\?$' | while read -r link; do
			[ -e "$(dirname "$f")/$link" ] || say "$f: $link is not there"
		done
	done
)"
if command -v shellcheck >/dev/null; then
	# not those about unquoted lists, and "cd" (env.sh says set -e)
	verdict "shellcheck" "$(files tools .ci demo bench \( -name '*.sh' -o -path '.ci/run' \) |
		xargs -r shellcheck -S warning -s bash -e SC1090,SC1091,SC2046,SC2086,SC2044,SC2164 2>&1 | head -n 50 || true)"
fi

exit "$failed"
