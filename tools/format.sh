#!/usr/bin/env bash
# format.sh: lays out all C++ of src/ and test/ as .clang-format says.
. "$(dirname "$0")/env.sh"
cd "$TOP"
for d in src test; do
	[ ! -d "$d" ] || find "$d" -type f \( -name '*.h' -o -name '*.cpp' \) -print0
done | xargs -0 -r clang-format -i
