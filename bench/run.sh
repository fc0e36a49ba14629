#!/usr/bin/env bash
# run.sh: what "make bench" runs, on a server of its own. Prints Markdown tables; docs/benchmarks.md keeps them with their
# date and machine. Speeds differ between machines and hours: only ratios of one run mean something.
# BENCHES="push hotlist wake idle held_snapshot retention timers workqueue state pgmq" picks; pgmq, only with PGMQ=dir, needs its sources there. Each script's head says what
# else can be set.
set -euo pipefail
[ -z "${PGMQ:-}" ] || PGMQ=$(cd "$PGMQ" && pwd)
cd "$(dirname "$0")"

for bench in ${BENCHES:-push hotlist wake idle held_snapshot retention timers workqueue state ${PGMQ:+pgmq}}; do
	case $bench in
		push) printf '## Commits with pushes against bare INSERTs\n\n' ;;
		hotlist) printf '## A pop of any partition, by the number of partitions\n\n' ;;
		wake) printf '## From a push to a waiting consumer, %s pushers, one partition\n\n' "${PUSHERS:-8}" ;;
		idle) printf '## Nothing happens, and %s consumers wait\n\n' "${WAITERS:-100}" ;;
		full_pool) printf '## More pending partitions than the hot-list holds\n\n' ;;
		held_snapshot) printf '## A held snapshot: push + pop + ack a second, 10 partitions, %s clients\n\n' "${HELD_CLIENTS:-4}" ;;
		retention) printf '## Retention under load\n\n' ;;
		timers) printf '## Timers\n\n' ;;
		workqueue) printf '## Work queues\n\n' ;;
		state) printf '## The state of queues\n\n' ;;
		timer_storage) printf '## Storage of timers\n\n' ;;
		pgmq) printf '## Against pgmq\n\n' ;;
	esac
	"./$bench.sh"
	echo
done
