#!/usr/bin/env bash
# run.sh: what "make bench" runs, on a server of its own. Prints Markdown tables; docs/benchmarks.md keeps them with their
# date and machine. Speeds differ between machines and hours: only ratios of one run mean something.
set -euo pipefail
cd "$(dirname "$0")"

echo "## A held snapshot: push + pop + ack a second, 10 partitions, ${CLIENTS:-4} clients"
echo
./held_snapshot.sh
