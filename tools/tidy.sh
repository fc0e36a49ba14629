#!/usr/bin/env bash
# tidy.sh [FILE…]: clang-tidy over src/, all cores at a time. A file whose text, headers and rules are as they were when it
# last passed is not looked at again (build/tidy keeps the sums). Prints "ok NAME" or "not ok NAME" and the findings.
. "$(dirname "$0")/env.sh"
cd "$TOP"

command -v clang-tidy >/dev/null || die "clang-tidy is not installed: tools/need.sh lint"
our_clang clang-tidy || { say "skipped: this is not clang-tidy $CLANG_VERSION"; exit 0; }
if [ $# -eq 0 ]; then mapfile -t files < <(find src -name '*.cpp' | sort); else files=("$@"); fi
[ ${#files[@]} -gt 0 ] || { say "no tests yet"; exit 0; }

mkdir -p build/tidy
core=$(CXX=clang++ WERROR='' mk -s print-core-compile) server=$(CXX=clang++ WERROR='' mk -s print-server-compile)
tidy() {
	local file=$1 flags=$server sum stamp findings
	case $file in src/core/*) flags=$core ;; esac
	stamp=build/tidy/${file//\//_}
	# shellcheck disable=SC2086 # a command with its options
	sum=$({ cat .clang-tidy && echo "$flags" && $flags -E "$file"; } 2>/dev/null | sha256sum)
	if [ "$sum" = "$(cat "$stamp" 2>/dev/null)" ]; then
		echo "ok tidy $file"
		return
	fi
	# shellcheck disable=SC2086
	if findings=$(clang-tidy --quiet --warnings-as-errors='*' "$file" -- ${flags#* } 2>/dev/null) && [ -z "$findings" ]; then
		echo "$sum" >"$stamp"
		echo "ok tidy $file"
	else
		printf 'not ok tidy %s\n%s\n' "$file" "$findings"
		return 1
	fi
}
export core server
export -f tidy
rc=0
printf '%s\n' "${files[@]}" | xargs -P "$JOBS" -I{} bash -c 'tidy {}' || rc=1
exit "$rc"
