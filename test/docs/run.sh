#!/usr/bin/env bash
# run.sh: what the documents say, on the server of tools/with_server.sh; prints "ok …" and "not ok …".
#
# docs/reference.md is what tools/reference.py makes of the catalog; the examples of README.md and docs/ do what is written,
# directly and through a pooler in transaction mode; and examples that are wrong are found to be (wrong.md).
. "$(dirname "$0")/../../tools/env.sh"
cd "$TOP"

documents=(README.md docs/*.md)
tools/reference.py --check || failed=1
test/docs/examples.py "${documents[@]}" || failed=1
test/docs/examples.py --pooled "${documents[@]}" || failed=1
test/docs/examples.py --must-fail test/docs/wrong.md || failed=1
exit "$failed"
