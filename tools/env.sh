# env.sh: what the scripts here have in common; to be sourced.
#
# Sets: TOP (the checkout), PG_CONFIG and PG_MAJOR (which server), JOBS, CLANG_VERSION.
# Functions: say, die, mk, pg, names, our_clang, verdict.
# shellcheck shell=bash disable=SC2034
set -euo pipefail
umask 022 # what root builds, an unprivileged server reads
export LC_ALL=C
unset CDPATH GREP_OPTIONS

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
JOBS=${JOBS:-$(nproc 2>/dev/null || echo 2)}

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# The same choice as in the Makefile: PG_CONFIG, else PG_MAJOR, else 15, or what the distribution has.
if [[ ${PG_CONFIG:-} =~ ^/usr/lib/postgresql/([0-9]+)/bin/pg_config$ ]]; then
	PG_MAJOR=${BASH_REMATCH[1]} # perhaps not installed yet
elif [ -n "${PG_CONFIG:-}" ]; then
	PG_MAJOR=$("$PG_CONFIG" --version | sed 's/^[^0-9]*\([0-9]*\).*/\1/') || die "PG_CONFIG=$PG_CONFIG does not run"
else
	if [ -z "${PG_MAJOR:-}" ]; then
		case $(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-}") in
			trixie) PG_MAJOR=17 ;;
			forky | sid) PG_MAJOR=18 ;;
			*) PG_MAJOR=15 ;;
		esac
	fi
	PG_CONFIG=/usr/lib/postgresql/$PG_MAJOR/bin/pg_config
fi
export PG_MAJOR PG_CONFIG

# make without the outer make's flags (a jobserver that we are no part of), with the choices that matter
mk() {
	local vars=("PG_CONFIG=$PG_CONFIG")
	[ -z "${CXX:-}" ] || vars+=("CXX=$CXX")
	[ -z "${WERROR:-}" ] || vars+=("WERROR=$WERROR")
	# shellcheck disable=SC2086 # MK_WRAP is a command with its options
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u SUITES -u TESTS ${MK_WRAP:-} make --no-print-directory -j"$JOBS" "${vars[@]}" "$@"
}

# pg --bindir
pg() { "$PG_CONFIG" "$@"; }

# names FILE…: of those that exist, without folder and ending
names() { for f in "$@"; do [ ! -e "$f" ] || { f=${f##*/} && say "${f%.*}"; }; done; }

# What clang-format lays out and clang-tidy finds differs between their versions; this one's word counts.
CLANG_VERSION=14
our_clang() { "$1" --version 2>/dev/null | grep -q "version $CLANG_VERSION\."; }

# verdict NAME FINDINGS: says whether there are any, and remembers it in "failed"
failed=0
verdict() {
	if [ -z "$2" ]; then say "ok $1"; else say "not ok $1" && printf '%s\n' "$2" | sed 's/^/    /' && failed=1; fi
}
