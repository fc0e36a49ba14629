#!/usr/bin/env bash
# fresh.sh [OPTION…] [GOAL…]: proves that "make GOAL" works on a fresh Debian that has nothing but make and git. Root only.
# Goals: demo and check if none is named; ".ci/run" runs that instead.
#
#   --suite=SUITE        which Debian: bookworm (12, the default), trixie (13) or sid
#   --user               as an ordinary user whose sudo asks no password;  --user-without-sudo: with none at all
#   --worktree           the files as they are here, not as they were committed last
#   --carry=DIR          a directory below build that goes along, and comes back as the goals leave it
#   --keep               keep the directory afterwards and say where it is
#   --limit=SECONDS      end a goal that takes longer
#   --possible           only make the system, and say in one line what keeps this machine from it (exit status 1)
#
# The system is made once with debootstrap (FRESH_DIR/fresh-SUITE, FRESH_DIR being /var/tmp if nothing is said) and copied
# for every goal, so no goal profits from what another one has installed. Each runs in name spaces of its own: what it mounts
# and starts ends with it. apt's settings of this machine (a proxy, say) are taken along; its package sources are Debian's
# own. Of the environment only the variables that "passed" names go along.
. "$(dirname "$0")/env.sh"
cd "$TOP"

passed=(SUITES TESTS FUZZ_SECONDS PROVE_JOBS SUITE_TIMEOUT LINT_SKIP WERROR CXX JOBS QUEEN_LOAD_SECONDS QUEEN_DUMPS)

user=root suite=bookworm worktree='' carry='' keep='' limit=0 possible='' goals=()
for arg in "$@"; do
	case $arg in
		--suite=*) suite=${arg#*=} ;;
		--user | --user-without-sudo) user=dev sudo=$arg ;;
		--worktree) worktree=1 ;;
		--carry=build/?*) carry=${arg#*=} ;;
		--keep) keep=1 ;;
		--limit=*) limit=${arg#*=} ;;
		--possible) possible=1 ;;
		-*) die "no such option: $arg" ;;
		*) goals+=("$arg") ;;
	esac
done
[ ${#goals[@]} -gt 0 ] || goals=(demo check)
mirror=http://deb.debian.org/debian
case $suite in
	bookworm | trixie) sources="deb $mirror $suite main
deb $mirror $suite-updates main
deb $mirror-security $suite-security main" ;;
	sid) sources="deb $mirror sid main" ;;
	*) die "no such suite: $suite" ;;
esac
base=${FRESH_DIR:-/var/tmp}/fresh-$suite

# impossible REASON: not a fault of the project's
impossible() {
	if [ -n "$possible" ]; then say "$*" && exit 1; else die "$*"; fi
}
[ "$(id -u)" = 0 ] || impossible "chroot and mount need root"
free=$(df --output=avail -BM "${base%/*}" 2>/dev/null | tail -n 1 | tr -dc 0-9) || impossible "${base%/*} is not there"
[ "$free" -ge 5000 ] || impossible "${base%/*} has $free MB free, and 5000 may be needed"
if [ ! -e "$base/etc/debian_version" ]; then
	command -v debootstrap >/dev/null || impossible "debootstrap is not installed"
	[ -n "$possible" ] || say "fresh.sh: making $base"
	rm -rf "$base.new"
	timeout 600 debootstrap --variant=minbase --include=make,git,ca-certificates "$suite" "$base.new" "$mirror" >"$base.log" 2>&1 ||
		impossible "debootstrap of $suite failed: $(tail -n 1 "$base.log")"
	mv "$base.new" "$base"
fi

work=''
finish() { if [ -n "$work" ]; then if [ -n "$keep" ]; then say "kept: $work"; else rm -rf --one-file-system "$work"; fi; fi; }
trap finish EXIT
trap 'exit 130' INT TERM

# prepare: a copy of the base with this machine's way to the network, the project, and the user
prepare() {
	work=$(mktemp -d "${base%/*}/queen-fresh.XXXXXX")
	cp -a --reflink=auto "$base/." "$work/"
	chmod 755 "$work"
	cp -L /etc/resolv.conf /etc/hosts "$work/etc/" 2>/dev/null || true
	say "$sources" >"$work/etc/apt/sources.list"
	local f
	for f in $(grep -lE '^[[:space:]]*Acquire::(http|https|Check|Retries|Proxy)' /etc/apt/apt.conf /etc/apt/apt.conf.d/* 2>/dev/null); do
		cp "$f" "$work/etc/apt/apt.conf.d/"
	done

	home=/root
	if [ "$user" != root ]; then
		home=/home/$user
		chroot "$work" useradd -m -s /bin/bash "$user"
		if [ "$sudo" = --user ]; then
			inside 'apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -y -q install --no-install-recommends sudo' >/dev/null 2>&1 </dev/null ||
				die "cannot install sudo"
			say "$user ALL=(ALL) NOPASSWD: ALL" >"$work/etc/sudoers.d/$user"
		fi
	fi
	if [ -n "$worktree" ]; then
		mkdir "$work$home/queen"
		# whoever owns the checkout; not what is deleted in it
		git -c safe.directory="$TOP" ls-files -z --cached --others --exclude-standard | { xargs -0 ls -d 2>/dev/null || true; } |
			tar -c -T - | tar -x -C "$work$home/queen"
	else
		git clone -q --no-hardlinks "$TOP" "$work$home/queen"
	fi
	if [ -n "$carry" ]; then
		mkdir -p "$carry" "$work$home/queen/$carry"
		cp -R "$carry/." "$work$home/queen/$carry"
	fi
	chroot "$work" chown -R "$user:" "$home/queen"
}

# carry_back: what was carried along, as it is now
carry_back() {
	rm -rf "${TOP:?}/$carry.new"
	cp -R "$work$home/queen/$carry" "$carry.new"
	rm -rf "${TOP:?}/$carry"
	mv "$carry.new" "$carry"
}

# inside COMMAND [USER [DIR]]: in the copy (or DIR), in its own mount and process name spaces
inside() {
	local command=$1 as=${2:-root} dir=${3:-$work} v vars=()
	for v in "${passed[@]}"; do [ -z "${!v:-}" ] || vars+=("$v=${!v}"); done
	# The first process inside must reap what servers that are killed leave: the shell does, timeout would not.
	# shellcheck disable=SC2016 # expanded by the inner shell
	timeout --foreground --signal=KILL "$limit" unshare --mount --pid --fork --kill-child bash -euc '
		mount --make-rprivate /
		mount --bind "$0" "$0" # a root that is mounted, as any: so fresh systems can be made in it, too
		mount -t proc proc "$0/proc"
		mount -t sysfs -o ro sysfs "$0/sys"
		mount --rbind /dev "$0/dev"
		mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm"
		exec chroot "$0" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb HOME="$3" \
			${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} "${@:4}" \
			setpriv --reuid="$2" --regid="$2" --init-groups bash -c "$1"
	' "$dir" "$command" "$as" "$home" "${vars[@]}"
}

home=/root failures=0
if [ -n "$possible" ]; then
	reason=$(inside true root "$base" 2>&1) || impossible "nothing runs in $base: ${reason##*$'\n'}"
	exit 0
fi
for goal in "${goals[@]}"; do
	start=$SECONDS
	prepare
	say "fresh.sh: ==== $goal on $suite as $user"
	command="make $goal"
	[ "$goal" != .ci/run ] || command="CI=true bash .ci/run"
	rc=0
	inside "cd $home/queen && $command" "$user" </dev/null || rc=$?
	[ -z "$carry" ] || carry_back
	say "fresh.sh: ==== $goal on $suite as $user: exit status $rc, $((SECONDS - start)) s"
	[ "$rc" = 0 ] || failures=$((failures + 1))
	finish
	work=''
done
exit "$failures"
