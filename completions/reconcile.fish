# fish completion for reconcile, made by `reconcile completion fish`: do not edit.

function __reconcile_words # the command and its arguments, without options and their values
    set -l skip 0
    set -l plain 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if test $plain = 0 -a "$word" = --
            set plain 1
        else if test $plain = 0; and string match -q -- '-*' $word
            contains -- $word --account --actor --approve --busy-exit --config --deadline --every --from --interval --jobs --max-runtime --number --on-failure --output --rate --reason --run --schedule --since --state --store --timezone --to --until --user --wait -E -c -m -n
            and set skip 1
        else
            echo -- $word
        end
    end
end

function __reconcile_none
    test (count (__reconcile_words)) = 0
end

function __reconcile_is -a name
    set -l words (__reconcile_words)
    test "$words[1]" = $name
end

function __reconcile_at -a name place
    set -l words (__reconcile_words)
    test "$words[1]" = $name -a (count $words) = (math $place + 1)
end

function __reconcile_ask -a what
    set -l tokens (commandline -opc)
    set -l words (__reconcile_words)
    set -l pass
    for n in (seq 2 (count $tokens))
        switch $tokens[$n]
            case -c --config --store
                set -a pass $tokens[$n] (string replace -r '^~/' $HOME/ -- $tokens[(math $n + 1)])
            case '--config=*' '--store=*'
                set -a pass $tokens[$n]
        end
    end 2>/dev/null
    set -l program (string replace -r '^~/' $HOME/ -- $tokens[1])
    if test $what = jobs
        command $program complete jobs $pass 2>/dev/null
    else
        command $program complete intervals $words[2] $pass 2>/dev/null
    end
end

complete -c reconcile -f
complete -c reconcile -l config -s c -r -F -d 'The configuration to use.'
complete -c reconcile -l store -x -d 'Use this store, not the configured one.'
complete -c reconcile -l quiet -s q -d 'Print nothing unless something new is wrong.'
complete -c reconcile -l verbose -s v -d 'Print each step on standard error.'
complete -c reconcile -l json -d 'Print one JSON object on standard output.'
complete -c reconcile -s h -l help -d 'Show help.'
complete -c reconcile -n __reconcile_none -l version -d 'Print the version.'

complete -c reconcile -n __reconcile_none -a run -d 'Do what is due; what cron and timers call.'
complete -c reconcile -n '__reconcile_is run' -l all -d 'All jobs that have something due, each in its own process.'
complete -c reconcile -n '__reconcile_is run' -l interval -x -k -a '(__reconcile_ask intervals)' -d 'Work this interval: an id, latest, oldest.'
complete -c reconcile -n '__reconcile_is run' -l now -d 'An interval of this instant, beside those that are due; needs -m.'
complete -c reconcile -n '__reconcile_is run' -l dry-run -d 'Show what would change; write nothing.'
complete -c reconcile -n '__reconcile_is run' -l max-runtime -x -a '90s 10m 1h 6h 1d 7d' -d 'Stop at a checkpoint after 90s, 10m, 6h, 3d.'
complete -c reconcile -n '__reconcile_is run' -l wait -x -a '90s 10m 1h 6h 1d 7d' -d 'When busy, stay for 90s, 10m, 6h until it is free.'
complete -c reconcile -n '__reconcile_is run' -l busy-exit -s E -x -d 'Exit with N when busy, not 75.'
complete -c reconcile -n '__reconcile_is run' -l jobs -x -d 'With --all: at most N at a time (4).'
complete -c reconcile -n '__reconcile_is run' -l reason -s m -x -d 'Why; kept on record.'
complete -c reconcile -n '__reconcile_is run' -l actor -x -d 'Who acts; kept on record.'
complete -c reconcile -n '__reconcile_at run 0' -a '(__reconcile_ask jobs)'

complete -c reconcile -n __reconcile_none -a resume -d 'Finish unfinished intervals, or approve a plan.'
complete -c reconcile -n '__reconcile_is resume' -l approve -x -d 'Approve the plan of this hash; needs -m.'
complete -c reconcile -n '__reconcile_is resume' -l reason -s m -x -d 'Why; kept on record.'
complete -c reconcile -n '__reconcile_is resume' -l actor -x -d 'Who acts; kept on record.'
complete -c reconcile -n '__reconcile_at resume 0' -a '(__reconcile_ask jobs)'
complete -c reconcile -n '__reconcile_at resume 1' -k -a '(__reconcile_ask intervals)'

complete -c reconcile -n __reconcile_none -a status -d 'Show jobs, intervals and runs.'
complete -c reconcile -n '__reconcile_is status' -l number -s n -x -d 'Show the newest N intervals.'
complete -c reconcile -n '__reconcile_is status' -l since -x -a '90s 10m 1h 6h 1d 7d' -d 'Show those of the last 6h, 90d.'
complete -c reconcile -n '__reconcile_is status' -l state -x -a 'pending unfinished completed skipped failed running fencing stalled retrying delayed paused needs-approval overdue' -d 'Show those in this state only.'
complete -c reconcile -n '__reconcile_is status' -l check -d 'One line for monitoring; exit 0, 1 warning, 2 critical, 3 unknown.'
complete -c reconcile -n '__reconcile_is status' -l metrics -d 'Print the figures as OpenMetrics text.'
complete -c reconcile -n '__reconcile_is status' -l watch -d 'Go on showing it until Ctrl-C, or until INTERVAL is finished.'
complete -c reconcile -n '__reconcile_at status 0' -a '(__reconcile_ask jobs)'
complete -c reconcile -n '__reconcile_at status 1' -k -a '(__reconcile_ask intervals)'

complete -c reconcile -n __reconcile_none -a rerun -d 'Work a finished interval again.'
complete -c reconcile -n '__reconcile_is rerun' -l wait -x -a '90s 10m 1h 6h 1d 7d' -d 'While it is worked, stay for 90s, 10m, 6h (10s) for your turn.'
complete -c reconcile -n '__reconcile_is rerun' -l reason -s m -x -d 'Why; kept on record.'
complete -c reconcile -n '__reconcile_is rerun' -l actor -x -d 'Who acts; kept on record.'
complete -c reconcile -n '__reconcile_at rerun 0' -a '(__reconcile_ask jobs)'
complete -c reconcile -n '__reconcile_at rerun 1' -k -a '(__reconcile_ask intervals)'

complete -c reconcile -n __reconcile_none -a backfill -d 'Replay a span of past intervals.'
complete -c reconcile -n '__reconcile_is backfill' -l from -x -k -a '(__reconcile_ask intervals)' -d 'Its first interval: an id.'
complete -c reconcile -n '__reconcile_is backfill' -l to -x -k -a '(__reconcile_ask intervals)' -d 'Its last interval: an id, or latest.'
complete -c reconcile -n '__reconcile_is backfill' -l rate -x -d 'Begin at most 10/h, 30/m; alone: from now on. 0 pauses.'
complete -c reconcile -n '__reconcile_is backfill' -l rerun-completed -d 'Work those again, too, that are completed.'
complete -c reconcile -n '__reconcile_is backfill' -l dry-run -d 'Show what there is to do, and until when; write nothing.'
complete -c reconcile -n '__reconcile_is backfill' -l cancel -d 'Give up the rest of the one that runs.'
complete -c reconcile -n '__reconcile_is backfill' -l reason -s m -x -d 'Why; kept on record.'
complete -c reconcile -n '__reconcile_is backfill' -l actor -x -d 'Who acts; kept on record.'
complete -c reconcile -n '__reconcile_at backfill 0' -a '(__reconcile_ask jobs)'

complete -c reconcile -n __reconcile_none -a skip -d 'Give an interval up.'
complete -c reconcile -n '__reconcile_is skip' -l reason -s m -x -d 'Why; kept on record.'
complete -c reconcile -n '__reconcile_is skip' -l actor -x -d 'Who acts; kept on record.'
complete -c reconcile -n '__reconcile_at skip 0' -a '(__reconcile_ask jobs)'
complete -c reconcile -n '__reconcile_at skip 1' -k -a '(__reconcile_ask intervals)'

complete -c reconcile -n __reconcile_none -a pause -d 'Let no trigger start anything.'
complete -c reconcile -n '__reconcile_is pause' -l until -x -d 'To 05:00 on the job\'s clock, 05:00Z, 2026-12-01T05:00Z; for 90m, 6h.'
complete -c reconcile -n '__reconcile_is pause' -l stop -d 'Ask the holder that works now to stop, too.'
complete -c reconcile -n '__reconcile_is pause' -l reason -s m -x -d 'Why; kept on record.'
complete -c reconcile -n '__reconcile_is pause' -l actor -x -d 'Who acts; kept on record.'
complete -c reconcile -n '__reconcile_at pause 0' -a '(__reconcile_ask jobs)'

complete -c reconcile -n __reconcile_none -a unpause -d 'Let triggers go on.'
complete -c reconcile -n '__reconcile_is unpause' -l catch-up -d 'Leave what was missed to the catch-up policy.'
complete -c reconcile -n '__reconcile_is unpause' -l reason -s m -x -d 'Why; kept on record.'
complete -c reconcile -n '__reconcile_is unpause' -l actor -x -d 'Who acts; kept on record.'
complete -c reconcile -n '__reconcile_at unpause 0' -a '(__reconcile_ask jobs)'

complete -c reconcile -n __reconcile_none -a stop -d 'Ask the holder to stop, or fence it out.'
complete -c reconcile -n '__reconcile_is stop' -l force -d 'Fence the holder out now, whatever it does.'
complete -c reconcile -n '__reconcile_is stop' -l no-wait -d 'Ask, and do not wait for the answer.'
complete -c reconcile -n '__reconcile_is stop' -l reason -s m -x -d 'Why; kept on record.'
complete -c reconcile -n '__reconcile_is stop' -l actor -x -d 'Who acts; kept on record.'
complete -c reconcile -n '__reconcile_at stop 0' -a '(__reconcile_ask jobs)'

complete -c reconcile -n __reconcile_none -a changes -d 'Show what was changed, or what a plan would change.'
complete -c reconcile -n '__reconcile_is changes' -l account -x -d 'Of this account.'
complete -c reconcile -n '__reconcile_is changes' -l since -x -a '90s 10m 1h 6h 1d 7d' -d 'Of the last 6h, 90d.'
complete -c reconcile -n '__reconcile_is changes' -l planned -d 'What the plan would change, instead of what was changed.'
complete -c reconcile -n '__reconcile_at changes 0' -a '(__reconcile_ask jobs)'
complete -c reconcile -n '__reconcile_at changes 1' -k -a '(__reconcile_ask intervals)'

complete -c reconcile -n __reconcile_none -a logs -d 'Show what a command printed.'
complete -c reconcile -n '__reconcile_is logs' -l run -x -d 'Of this run; the last without it.'
complete -c reconcile -n '__reconcile_is logs' -l follow -s f -d 'Wait for more until the run has ended.'
complete -c reconcile -n '__reconcile_at logs 0' -a '(__reconcile_ask jobs)'
complete -c reconcile -n '__reconcile_at logs 1' -k -a '(__reconcile_ask intervals)'

complete -c reconcile -n __reconcile_none -a drill -d 'Rehearse kills, stalls and misses on your store.'

complete -c reconcile -n __reconcile_none -a prune -d 'Drop what is older than keep in [store].'
complete -c reconcile -n '__reconcile_is prune' -l dry-run -d 'Show what would go; drop nothing.'
complete -c reconcile -n '__reconcile_at prune 0' -a '(__reconcile_ask jobs)'

complete -c reconcile -n __reconcile_none -a config -d 'Check the configuration and print what it means.'
complete -c reconcile -n '__reconcile_at config 0' -a '(__reconcile_ask jobs)'

complete -c reconcile -n __reconcile_none -a doctor -d 'Check everything, and say how to mend it.'
complete -c reconcile -n '__reconcile_is doctor' -l ddl -d 'Print what an administrator runs where jobs may not create tables.'
complete -c reconcile -n '__reconcile_is doctor' -l test-alert -d 'Send one alert to each channel, call each heartbeat once.'
complete -c reconcile -n '__reconcile_at doctor 0' -a '(__reconcile_ask jobs)'

complete -c reconcile -n __reconcile_none -a init -d 'Write a configuration, or a ready demo.'
complete -c reconcile -n '__reconcile_is init' -l demo -d 'With a job, a source and a target to try it on.'

complete -c reconcile -n __reconcile_none -a add -d 'Append a job, as from a line of a crontab.'
complete -c reconcile -n '__reconcile_is add' -l schedule -x -d 'Five cron fields, @daily, or a calendar event of systemd.'
complete -c reconcile -n '__reconcile_is add' -l timezone -x -d 'The zone of the schedule; else UTC.'
complete -c reconcile -n '__reconcile_is add' -l deadline -x -a '90s 10m 1h 6h 1d 7d' -d 'After its time it is overdue: 90m, 6h, 3d.'
complete -c reconcile -n '__reconcile_at add 1' -a '(__fish_complete_command)'

complete -c reconcile -n __reconcile_none -a units -d 'Print a crontab line, or a systemd service and timer.'
complete -c reconcile -n '__reconcile_is units' -l systemd -d 'A service and a timer.'
complete -c reconcile -n '__reconcile_is units' -l crontab -d 'A crontab line; with --output, a file for /etc/cron.d.'
complete -c reconcile -n '__reconcile_is units' -l every -x -a '90s 10m 1h 6h 1d 7d' -d 'Knock so often; else 10m, 5m or 1m, as needed.'
complete -c reconcile -n '__reconcile_is units' -l spread -d 'Knock at minutes of its own, so that not all jobs begin at once.'
complete -c reconcile -n '__reconcile_is units' -l output -x -a '(__fish_complete_directories)' -d 'Write files into this folder, not to the screen.'
complete -c reconcile -n '__reconcile_is units' -l force -d 'Replace files that are there and differ.'
complete -c reconcile -n '__reconcile_is units' -l user -x -d 'Run it as NAME; else as the store\'s owner, or you.'
complete -c reconcile -n '__reconcile_is units' -l on-failure -x -d 'Unit that systemd starts when a call fails.'
complete -c reconcile -n '__reconcile_at units 0' -a '(__reconcile_ask jobs)'
