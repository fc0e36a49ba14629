#!/usr/bin/env bash
# as_user.sh COMMAND…: runs it as the user that servers run as. as_user.sh --name prints that user's name.
#
# A server refuses to run as root, so root becomes "postgres", or "nobody" where there is no such user; everybody else
# stays who they are; RUN_USER names another for root to become. The environment is kept but for PATH (root's may lead where that user cannot read), HOME and the
# names; RUN_PATH is put before the system's PATH, RUN_HOME (a directory that the user can write) becomes HOME.
set -euo pipefail

user=$(id -un)
if [ "$(id -u)" = 0 ]; then
	user=nobody
	! id -u postgres >/dev/null 2>&1 || user=postgres
	user=${RUN_USER:-$user}
fi
[ "${1:-}" != --name ] || { echo "$user"; exit 0; }
[ $# -gt 0 ] || { echo "usage: tools/as_user.sh COMMAND… | --name" >&2; exit 1; }

export PATH="${RUN_PATH:+$RUN_PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
export HOME=${RUN_HOME:-${TMPDIR:-/tmp}} USER=$user LOGNAME=$user
export LANG=C.UTF-8 # what initdb takes where a test says nothing
unset MAKEFLAGS MFLAGS MAKELEVEL PGDATA PGHOST PGPORT PGUSER PGDATABASE PGSERVICE PGOPTIONS

[ "$(id -u)" = 0 ] || exec "$@"
exec setpriv --reuid="$(id -u "$user")" --regid="$(id -g "$user")" --init-groups --no-new-privs -- "$@"
