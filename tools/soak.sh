#!/usr/bin/env bash
# soak.sh: the soak (test/soak/README.md) on a private server with the settings that it needs.
#
#   MINUTES=5 or SOAK_SECONDS=300   how long the load runs; what is drained and checked afterwards comes on top
#   SEED=1         everything random follows from it, but for what the processes' scheduling does
#   KILL_EVERY=60  seconds from one crash of the server to the next (never less often than four times a run)
#   CHECK_EVERY=10 seconds between two looks at all that must be true meanwhile
#   PUSH_PAUSE=0.02   seconds that a pusher waits between transactions
#   PRELOAD=queen_test  without queen: nothing in shared memory   (default: both, so that queen flushes first)
#   HOTLIST=mixed  on: all sessions use the hot-list; off: none; mixed: a third of them does not
#   SMALL_POOL=1   1 MB for it, which a queue of 20,000 pending partitions fills
#   FSYNC=off      on: as in production. A killed process keeps what the system has in its cache either way.
. "$(dirname "$0")/env.sh"
cd "$TOP"

tools/need.sh soak
/usr/bin/python3 test/soak/model_test.py
exec tools/with_server.sh \
	-c "shared_preload_libraries=${PRELOAD:-queen_test, queen}" \
	-c "fsync=${FSYNC:-off}" \
	-c max_prepared_transactions=50 \
	-c track_commit_timestamp=on \
	-c autovacuum_naptime=1s \
	-c deadlock_timeout=200ms \
	-c queen.push_buffer_size=64kB \
	-c queen.hotlist_reseed_interval=1s \
	-c queen.hotlist_idle_sweep_interval=5s \
	${SMALL_POOL:+-c queen.hotlist_size=1MB} \
	/usr/bin/python3 test/soak/soak.py
