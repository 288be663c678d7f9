#!/bin/sh
# One backup a night, however many crontabs start it.
#
# Five "cron" processes start the same job at once, each as
#
#     holdfast lock --no-wait nightly-backup -- backup
#
# The first one runs. The commands of the others end at once, because the lock is taken, with exit
# status 75, "try again later" (EX_TEMPFAIL). -E changes that status: `-E 0` keeps cron from sending
# mail about it.
set -eu
. "$(dirname "$0")/agent.sh"

# The job waits until the other four have tried the lock; a real job simply takes long. If the job
# ended before the last "cron" started, it would rightly run twice.
cat >"$work/backup" <<'JOB'
#!/bin/sh
echo "backup by process $$ under token $HOLDFAST_TOKEN" >>"$WORK/ran"
tries=0
while [ "$(cat "$WORK"/status.* 2>/dev/null | wc -l)" -lt 4 ] && [ "$tries" -lt 300 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
JOB
chmod +x "$work/backup"
export WORK="$work"

crons=
for cron in 1 2 3 4 5; do
    (
        status=0
        holdfast lock --no-wait nightly-backup -- "$work/backup" 2>/dev/null || status=$?
        echo "$status" >"$work/new.$cron"
        mv "$work/new.$cron" "$work/status.$cron"
    ) &
    crons="$crons $!"
done
# shellcheck disable=SC2086
wait $crons

cat "$work/ran"
ran=$(wc -l <"$work/ran")
well=$(cat "$work"/status.* | grep -cx 0 || true)
told=$(cat "$work"/status.* | grep -cx 75 || true)
echo "ran: $ran, exit 0: $well, exit 75: $told"
if [ "$ran" -ne 1 ] || [ "$well" -ne 1 ] || [ "$told" -ne 4 ]; then
    echo "wrong: expected one that ran and four that exited with 75" >&2
    exit 1
fi
