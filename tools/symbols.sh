#!/usr/bin/env bash
# symbols.sh: what the built queen.so shows to the outside, and what it needs; "make" comes first.
#
# A server opens modules with their symbols global, so whatever is exported by accident can shadow another module's.
. "$(dirname "$0")/env.sh"
cd "$TOP"
[ -f queen.so ] || die "no queen.so: make it first"

verdict "queen.so exports entry points only" "$(nm -D --defined-only queen.so | awk '{ print $3 }' |
	grep -vE '^(pg_finfo_queen_\w+|queen_\w+|_PG_init|Pg_magic_func)(@.*)?$' || true)"

objects=$(find build/obj/core -name '*.o' 2>/dev/null | sort)
# shellcheck disable=SC2086 # lists
verdict "core: no heap, no exception, no libstdc++" "$([ -z "$objects" ] || nm -A -u $objects | awk '{ print $1, $NF }' |
	grep -E ' (_Zn|_Zd|_ZSt|_ZNSt|_ZNKSt|_ZTI|_ZTV|__cxa_|__gxx_|_Unwind_|malloc|calloc|realloc|free|abort|__assert_fail)' || true)"

verdict "no constructor runs at dlopen" "$(for o in $(find build/obj -name '*.o' | sort); do
	! objdump -h "$o" | grep -qE '\.(init_array|ctors|fini_array|dtors)' || say "$o"
done)"

# shellcheck disable=SC2154 # verdict sets it
exit "$failed"
