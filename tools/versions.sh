#!/usr/bin/env bash
# versions.sh [--skips-pass] [VERSION…]: "make check" on every PostgreSQL that a Debian has: 15 (bookworm), 17 (trixie),
# 18 (sid); all of them if none is named. The last line is "N passed, N failed"; the exit status says the same.
#
# Each runs on a fresh system of its own (tools/fresh.sh: root, debootstrap, some minutes) with the files as they are here,
# warnings being errors, by that system's g++ and clang++, one after the other and niced. SUITES, TESTS and the others of
# tools/check.sh are passed on. What each said is in build/versions. One that takes longer than VERSION_TIMEOUT seconds
# (1800) has failed.
#
# Each leaves the dump of a server at work to the newer ones after it, which restore it (tests 021_dump and 022_restore); one that
# leaves none has failed. QUEEN_DUMPS names a directory below build that may have dumps of other versions already.
#
# A version that could not be tried (no root, no network, a package that is not there) has failed; with --skips-pass (CI, which
# may run where nothing of this is possible) it is told, and not counted.
. "$(dirname "$0")/env.sh"
cd "$TOP"

skips_pass='' versions=()
for arg in "$@"; do
	case $arg in
		--skips-pass) skips_pass=1 ;;
		15 | 17 | 18) versions+=("$arg") ;;
		*) die "no such version: $arg" ;;
	esac
done
[ ${#versions[@]} -gt 0 ] || versions=(15 17 18)
declare -A suite_of=([15]=bookworm [17]=trixie [18]=sid)

# what a version is tried with, unless the caller says: also those suites that "make check" leaves to CI
[ -n "${SUITES:-}${TESTS:-}" ] || SUITES="lint clang build symbols tidy unit asan tsan fuzz regress isolation regress_hotlist isolation_hotlist tap docs"
export SUITES="${SUITES:-}" WERROR=1

if [ -z "${QUEEN_DUMPS:-}" ]; then
	export QUEEN_DUMPS=build/versions/dumps
	rm -rf "$QUEEN_DUMPS"
fi
mkdir -p build/versions "$QUEEN_DUMPS"
leaves_dump=''
[ -n "${TESTS:-}" ] || case " $SUITES " in *" tap "*) leaves_dump=1 ;; esac

passed=0 failures=0 table=
for v in "${versions[@]}"; do
	suite=${suite_of[$v]} log=build/versions/$v.log start=$SECONDS skipped=
	say "versions.sh: ==== PostgreSQL $v on $suite, dumps at hand: $(names "$QUEEN_DUMPS"/* | tr '\n' ' ')"
	if ! skipped=$(nice -n 10 tools/fresh.sh --possible --suite="$suite" 2>&1); then
		skipped=${skipped:-no reason was given}
	else
		nice -n 10 tools/fresh.sh --suite="$suite" --worktree --carry="$QUEEN_DUMPS" --limit="${VERSION_TIMEOUT:-1800}" check 2>&1 | tee "$log" || true
		result=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1) || result=
		if [ -z "$result" ] && grep -q '^need.sh: failed: ' "$log"; then
			skipped="its packages cannot be installed"
		elif [ -z "$result" ]; then
			result="0 passed, 1 failed" # it ended before it could say
		fi
	fi
	if [ -n "$skipped" ]; then
		table+="PostgreSQL $v on $suite: SKIPPED, $skipped"$'\n'
		[ -n "$skips_pass" ] || failures=$((failures + 1))
		continue
	fi
	read -r p _ f _ <<<"$result"
	if [ -n "$leaves_dump" ] && [ ! -d "$QUEEN_DUMPS/$v" ]; then
		say "versions.sh: PostgreSQL $v has left no dump" | tee -a "$log"
		f=$((f + 1))
	fi
	passed=$((passed + p)) failures=$((failures + f))
	table+=$(printf 'PostgreSQL %s on %-8s %5d passed, %3d failed %6d s' "$v" "$suite" "$p" "$f" $((SECONDS - start)))$'\n'
done

say
say "${table%$'\n'}"
say "$passed passed, $failures failed"
[ "$failures" = 0 ]
