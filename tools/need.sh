#!/usr/bin/env bash
# need.sh SET…: installs what is missing of the named sets of Debian packages, and nothing when all is there.
#
#   build   compiler, server, headers            test   build + gtest, IPC::Run, clang for sanitizers and fuzzing, a Prometheus exporter
#   lint    build + clang-format, clang-tidy     demo, bench, soak   build + python3 with psycopg2
#   bench-core   compiler, Google Benchmark
#   docs    build + python3 with psycopg 2 and 3, node with node-postgres, pgbouncer
#   versions   debootstrap
#
# Three are only unpacked, into build/unpacked: pgbouncer and prometheus-postgres-exporter, whose packages start a service for the whole
# machine, and node-postgres, whose package wants Debian's node where the machine may have another.
#
# As root it runs apt-get; as an ordinary user "sudo -n apt-get" if sudo asks no password; otherwise it prints the
# command that is needed, and fails. postgresql-common is kept from making a database cluster of its own meanwhile.
. "$(dirname "$0")/env.sh"

[ $# -gt 0 ] || die "usage: tools/need.sh build|test|lint|demo|bench|bench-core|soak|docs|versions …"

packages=() unpacked=()
build=(g++ make libzstd-dev libxxhash-dev)
# A server that PG_CONFIG finds whole, wherever it comes from, is not installed again.
if ! { [ -x "$PG_CONFIG" ] && [ -f "$(pg --pgxs)" ] && [ -x "$(pg --bindir)/postgres" ] && [ -x "$(pg --bindir)/psql" ]; }; then
	build+=("postgresql-$PG_MAJOR" "postgresql-client-$PG_MAJOR" "postgresql-server-dev-$PG_MAJOR")
fi
for set in "$@"; do
	case $set in
		build) packages+=("${build[@]}") ;;
		test)
			packages+=("${build[@]}" libgtest-dev libipc-run-perl perl clang libclang-rt-dev)
			[ -x "$TOP/build/unpacked/usr/bin/prometheus-postgres-exporter" ] || unpacked+=(prometheus-postgres-exporter)
			;;
		lint) packages+=("${build[@]}" clang clang-format clang-tidy perl binutils) ;;
		demo | bench | soak) packages+=("${build[@]}" python3 python3-psycopg2) ;;
		bench-core) packages+=(g++ make libbenchmark-dev) ;;
		docs)
			packages+=("${build[@]}" python3 python3-psycopg2 python3-psycopg)
			command -v node >/dev/null || packages+=(nodejs)
			[ -x "$TOP/build/unpacked/usr/sbin/pgbouncer" ] && [ -d "$TOP/build/unpacked/usr/share/nodejs/pg" ] || unpacked+=(pgbouncer node-pg)
			;;
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
[ ${#missing[@]} -gt 0 ] || [ ${#unpacked[@]} -gt 0 ] || exit 0

# needs PACKAGE: the packages that it depends on, itself included
needs() {
	apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances "$1" |
		grep -E '^[a-z0-9]' | sort -u
}
unpack() { # what the libraries of pgbouncer are depends on the release: they are harmless, and installed
	local dir=$TOP/build/unpacked/packages package lib downloads=()
	apt-cache show "${unpacked[@]}" >/dev/null 2>&1 || update
	for package in "${unpacked[@]}"; do
		case $package in
			node-pg) mapfile -t -O "${#downloads[@]}" downloads < <(needs node-pg | grep '^node-') ;;
			*) downloads+=("$package") ;;
		esac
	done
	case " ${unpacked[*]} " in
		*" pgbouncer "*)
			for lib in $(apt-cache depends pgbouncer | sed -n 's/^ *Depends: \(lib[^ ]*\)$/\1/p'); do
				installed "$lib" || missing+=("$lib")
			done
			;;
	esac
	say "need.sh: unpacking ${unpacked[*]}"
	rm -rf "$dir"
	mkdir -p "$dir"
	(cd "$dir" && apt-get -q download "${downloads[@]}" >download.log 2>&1 && for p in *.deb; do dpkg -x "$p" ..; done) ||
		{ cat "$dir/download.log" >&2; die "failed: apt-get download"; }
}

root=()
if [ "$(id -u)" = 0 ]; then
	can_install=1
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
	can_install=1 root=(sudo -n)
else
	can_install= # but unpack
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

updated=
update() {
	if [ -n "$can_install" ] && [ -z "$updated" ]; then quietly apt update && updated=1; fi
}
[ ${#unpacked[@]} = 0 ] || unpack
[ ${#missing[@]} -gt 0 ] || exit 0

if [ -z "$can_install" ]; then
	say "need.sh: packages are missing, and neither root nor a sudo without a password is at hand. Install them with:"
	say
	say "  apt-get install --no-install-recommends ${missing[*]}"
	exit 1
fi
say "need.sh: installing ${missing[*]}"
update
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
