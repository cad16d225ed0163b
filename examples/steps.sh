#!/bin/sh
# A job of 1,000 steps that checkpoints itself: killed at any moment, the next call goes on at the
# step after the last one that it told of. No library is needed.
do_step() {
  echo "$1" >>"${OUTPUT:-steps.txt}"
}

i=${RECONCILE_CURSOR:-0}
while [ "$i" -lt "${STEPS:-1000}" ]; do
  i=$((i + 1))
  do_step "$i" || exit 1
  echo "{\"cursor\": $i, \"count\": $i}" >&"$RECONCILE_PROGRESS_FD"
done
