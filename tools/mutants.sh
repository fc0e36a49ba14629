#!/usr/bin/env bash
# mutants.sh [NAME…]: takes the mechanisms out, one at a time, and sees the soak fail.
#
# test/mutants/NAME.patch says in its first lines what it takes out, how the soak sees it ("Seen as: INVARIANT", or
# "survives", with the reason), and settings that it needs ("Run with: NAME=value"). Each is applied to a copy of the
# checkout, built, and soaked until a violation or for SOAK_SECONDS (120). Prints a table; fails if one survives that is
# not known to, or does not apply. mutants.sh --check only looks whether all of them apply (tools/lint.sh does).
. "$(dirname "$0")/env.sh"
cd "$TOP"

about() { sed -n "/^--- /q; s/^$2: //p" "test/mutants/$1.patch"; }

check=
[ "${1:-}" != --check ] || { check=1 && shift; }
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
