#!/usr/bin/env bash
# need.sh SET…: installs what is missing of the named sets of Debian packages, and nothing when all is there.
#
#   build   compiler, server, headers            test   build + gtest, IPC::Run, clang for sanitizers and fuzzing
#   lint    build + clang-format, clang-tidy     demo, bench, soak   build + python3 with psycopg2
#   versions   debootstrap
#
# As root it runs apt-get; as an ordinary user "sudo -n apt-get" if sudo asks no password; otherwise it prints the
# command that is needed, and fails. postgresql-common is kept from making a database cluster of its own meanwhile.
. "$(dirname "$0")/env.sh"

[ $# -gt 0 ] || die "usage: tools/need.sh build|test|lint|demo|bench|soak|versions …"

packages=()
build=(g++ make libzstd-dev libxxhash-dev)
# A server that PG_CONFIG finds whole, wherever it comes from, is not installed again.
if ! { [ -x "$PG_CONFIG" ] && [ -f "$(pg --pgxs)" ] && [ -x "$(pg --bindir)/postgres" ] && [ -x "$(pg --bindir)/psql" ]; }; then
	build+=("postgresql-$PG_MAJOR" "postgresql-client-$PG_MAJOR" "postgresql-server-dev-$PG_MAJOR")
fi
for set in "$@"; do
	case $set in
		build) packages+=("${build[@]}") ;;
		test) packages+=("${build[@]}" libgtest-dev libipc-run-perl perl clang libclang-rt-dev) ;;
		lint) packages+=("${build[@]}" clang clang-format clang-tidy perl binutils) ;;
		demo | bench | soak) packages+=("${build[@]}" python3 python3-psycopg2) ;;
		versions) packages+=(debootstrap) ;;
		*) die "no such set: $set" ;;
	esac
done

command -v dpkg-query >/dev/null || { say "need.sh: no Debian here, going on without a look at: ${packages[*]}"; exit 0; }

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

missing=()
for p in $(printf '%s\n' "${packages[@]}" | sort -u); do
	installed "$p" || missing+=("$p")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ]; then
	root=()
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
	root=(sudo -n)
else
	say "need.sh: packages are missing, and neither root nor a sudo without a password is at hand. Install them with:"
	say
	say "  apt-get install --no-install-recommends ${missing[*]}"
	exit 1
fi

apt() {
	"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 "$@"
}

# apt tells of every step; it is shown only when it fails
log=$(mktemp)
conf=/etc/postgresql-common/createcluster.conf
saved=
restore() {
	[ -z "$saved" ] || "${root[@]}" sed -i 's/^create_main_cluster = false # queen.*$/'"$saved"'/' "$conf"
	rm -f "$log"
}
trap restore EXIT
quietly() { "$@" >"$log" 2>&1 </dev/null || { cat "$log" >&2; die "failed: $*"; }; }

say "need.sh: installing ${missing[*]}"
quietly apt update
case " ${missing[*]} " in
	*" postgresql-$PG_MAJOR "*)
		installed postgresql-common || quietly apt install --no-install-recommends postgresql-common
		# Only while we install: whatever the machine says there otherwise is its owner's business.
		saved=$(grep -m 1 -E '^#? *create_main_cluster *=' "$conf" | sed 's/[\/&]/\\&/g') || saved=
		if [ -n "$saved" ]; then
			"${root[@]}" sed -i -E '0,/^#? *create_main_cluster *=.*$/s//create_main_cluster = false # queen: need.sh runs/' "$conf"
		fi
		;;
esac
quietly apt install --no-install-recommends "${missing[@]}"
