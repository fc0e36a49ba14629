#!/usr/bin/env bash
# mutants.sh [NAME…]: takes the mechanisms out, one at a time, and sees the soak fail.
#
# test/mutants/NAME.patch says in its first lines what it takes out, how the soak sees it ("Seen as: INVARIANT", or
# "survives", with the reason), and settings that it needs ("Run with: NAME=value"). Each is applied to a copy of the
# checkout, built, and soaked until a violation or for SOAK_SECONDS (120). Prints a table; fails if one survives that is
# not known to, or does not apply. mutants.sh --check only looks whether all of them apply (tools/lint.sh does).
#
# Those with "Seen by: model" are seen by the hot-list's model, which needs no server: by which of its judges, the
# database or the contract, and after how many steps of QUEEN_MODEL_STEPS (10 million); the table says after how many the
# database alone sees it. mutants.sh --model runs them only.
. "$(dirname "$0")/env.sh"
cd "$TOP"

about() { sed -n "/^--- /q; s/^$2: //p" "test/mutants/$1.patch"; }

check=
[ "${1:-}" != --check ] || { check=1 && shift; }
if [ "${1:-}" = --model ]; then
	shift
	# shellcheck disable=SC2046 # a list
	[ $# -gt 0 ] || set -- $(names $(grep -l '^Seen by: model$' test/mutants/*.patch))
fi
[ $# -gt 0 ] || set -- $(names test/mutants/*.patch)
if [ -n "$check" ]; then
	for name in "$@"; do
		out=$(git apply -p0 --check "test/mutants/$name.patch" 2>&1) || say "$name: $(head -n 1 <<<"$out")"
	done
	exit 0
fi

copy=$(mktemp -d "${TMPDIR:-/tmp}/queen.XXXXXX")
trap 'rm -rf "$copy"' EXIT
trap 'exit 130' INT TERM
chmod 755 "$copy"
mkdir "$copy/tree"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp -P --parents -t "$copy/tree"

# model JUDGE: "JUDGE STEPS" of what the model of the copy sees, or "survives"
model() {
	local out=$copy/model.out
	# shellcheck disable=SC2034 # of the copy
	(cd "$copy/tree" && unset MAKEFLAGS && make -s -C test/unit build kind=plain) >"$out" 2>&1 || { say "? (does not build)"; return; }
	(cd "$copy/tree" && QUEEN_MODEL_JUDGE=$1 timeout 300 build/unit/plain-*/unit --gtest_filter='HotlistModel*') >"$out" 2>&1 || true
	if grep -q '^\[  PASSED  \] 1 test' "$out"; then
		say survives
	else
		say "$(sed -n 's/^\(contract\|database\): .*/\1/p' "$out" | head -n 1) $(sed -n 's/.*(after \([0-9]*\) steps in all).*/\1/p' "$out" | head -n 1)"
	fi
}

bad=0
printf '%-34s %-20s %-20s %s\n' mutant 'to be seen as' 'seen as' after
for name in "$@"; do
	patch=$TOP/test/mutants/$name.patch
	[ -f "$patch" ] || die "no such mutant: $name"
	expected=$(about "$name" "Seen as")
	expected=${expected%% (*}
	if ! (cd "$copy/tree" && git apply -p0 "$patch"); then
		bad=1
		continue
	fi
	if [ "$(about "$name" "Seen by")" = model ]; then
		seen=$(model both)
		alone=$(model database)
		printf '%-34s %-20s %-20s %s\n' "$name" "$expected" "$seen" "$alone"
		case $seen in
			contract* | database*) ;;
			survives) [ "$expected" = survives ] || bad=1 ;;
			*) bad=1 && cat "$copy/model.out" ;;
		esac
		(cd "$copy/tree" && git apply -p0 -R "$patch")
		continue
	fi
	(
		cd "$copy/tree"
		# shellcheck disable=SC2046 # a list
		env SOAK_SECONDS="${SOAK_SECONDS:-120}" KILL_EVERY="${KILL_EVERY:-20}" CHECK_EVERY=2 PUSH_PAUSE="${PUSH_PAUSE:-0.005}" \
			$(about "$name" "Run with") tools/soak.sh
	) >"$copy/$name.out" 2>&1 || true
	seen=$(sed -n 's/^not ok \([^:]*\): .*/\1/p' "$copy/$name.out" | head -n 1)
	after=$(sed -n 's/^after \(.*\); again with.*/\1/p' "$copy/$name.out")
	if [ -z "$seen" ] && grep -q '^soak: .* commits' "$copy/$name.out"; then seen=survives; fi
	printf '%-34s %-20s %-20s %s\n' "$name" "$expected" "${seen:-?}" "$after"
	sed -n 's/^not ok /    /p' "$copy/$name.out" | cut -c1-200
	[ -n "$seen" ] || tail -n 20 "$copy/$name.out"
	if [ -z "$seen" ] || { [ "$seen" = survives ] && [ "$expected" != survives ]; }; then bad=1; fi
	(cd "$copy/tree" && git apply -p0 -R "$patch")
done
exit "$bad"
