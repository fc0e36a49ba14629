#!/usr/bin/env bash
# run.sh: what "make bench" runs, on a server of its own. Prints Markdown tables; docs/benchmarks.md keeps them with their
# date and machine. Speeds differ between machines and hours: only ratios of one run mean something.
# BENCHES="push held_snapshot" picks; each script's head says what else can be set.
set -euo pipefail
cd "$(dirname "$0")"

for bench in ${BENCHES:-push held_snapshot}; do
	case $bench in
		push) printf '## Commits with pushes against bare INSERTs\n\n' ;;
		held_snapshot) printf '## A held snapshot: push + pop + ack a second, 10 partitions, %s clients\n\n' "${CLIENTS:-4}" ;;
	esac
	"./$bench.sh"
	echo
done
