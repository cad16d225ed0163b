# bash completion for reconcile, made by `reconcile completion bash`: do not edit.

_reconcile_kind() { # COMMAND OPTION: what its value is; nothing for a flag
  case $1:$2 in
    *:--config) echo file ;;
    *:-c) echo file ;;
    *:--store) echo text ;;
    run:--interval) echo interval ;;
    run:--max-runtime) echo choice ;;
    run:--wait) echo choice ;;
    run:--busy-exit) echo text ;;
    run:-E) echo text ;;
    run:--jobs) echo text ;;
    run:--reason) echo text ;;
    run:-m) echo text ;;
    run:--actor) echo text ;;
    resume:--approve) echo text ;;
    resume:--reason) echo text ;;
    resume:-m) echo text ;;
    resume:--actor) echo text ;;
    status:--number) echo text ;;
    status:-n) echo text ;;
    status:--since) echo choice ;;
    status:--state) echo choice ;;
    rerun:--wait) echo choice ;;
    rerun:--reason) echo text ;;
    rerun:-m) echo text ;;
    rerun:--actor) echo text ;;
    backfill:--from) echo interval ;;
    backfill:--to) echo interval ;;
    backfill:--rate) echo text ;;
    backfill:--reason) echo text ;;
    backfill:-m) echo text ;;
    backfill:--actor) echo text ;;
    skip:--reason) echo text ;;
    skip:-m) echo text ;;
    skip:--actor) echo text ;;
    pause:--until) echo text ;;
    pause:--reason) echo text ;;
    pause:-m) echo text ;;
    pause:--actor) echo text ;;
    unpause:--reason) echo text ;;
    unpause:-m) echo text ;;
    unpause:--actor) echo text ;;
    stop:--reason) echo text ;;
    stop:-m) echo text ;;
    stop:--actor) echo text ;;
    changes:--account) echo text ;;
    changes:--since) echo choice ;;
    logs:--run) echo text ;;
    add:--schedule) echo text ;;
    add:--timezone) echo text ;;
    add:--deadline) echo choice ;;
    units:--every) echo choice ;;
    units:--output) echo folder ;;
    units:--user) echo text ;;
    units:--on-failure) echo text ;;
  esac
}

_reconcile_choices() { # COMMAND OPTION
  case $1:$2 in
    run:--max-runtime) printf '%s\n' 90s 10m 1h 6h 1d 7d ;;
    run:--wait) printf '%s\n' 90s 10m 1h 6h 1d 7d ;;
    status:--since) printf '%s\n' 90s 10m 1h 6h 1d 7d ;;
    status:--state) printf '%s\n' pending unfinished completed skipped failed running fencing stalled retrying delayed paused needs-approval overdue ;;
    rerun:--wait) printf '%s\n' 90s 10m 1h 6h 1d 7d ;;
    changes:--since) printf '%s\n' 90s 10m 1h 6h 1d 7d ;;
    add:--deadline) printf '%s\n' 90s 10m 1h 6h 1d 7d ;;
    units:--every) printf '%s\n' 90s 10m 1h 6h 1d 7d ;;
  esac
}

_reconcile_argument() { # COMMAND PLACE
  case $1:$2 in
    run:0) echo job ;;
    resume:0) echo job ;;
    resume:1) echo interval ;;
    status:0) echo job ;;
    status:1) echo interval ;;
    rerun:0) echo job ;;
    rerun:1) echo interval ;;
    backfill:0) echo job ;;
    skip:0) echo job ;;
    skip:1) echo interval ;;
    pause:0) echo job ;;
    unpause:0) echo job ;;
    stop:0) echo job ;;
    changes:0) echo job ;;
    changes:1) echo interval ;;
    logs:0) echo job ;;
    logs:1) echo interval ;;
    prune:0) echo job ;;
    config:0) echo job ;;
    doctor:0) echo job ;;
    add:1) echo program ;;
    units:0) echo job ;;
  esac
}

_reconcile_options() { # COMMAND
  case $1 in
    run) printf '%s\n' --all --interval --now --dry-run --max-runtime --wait --busy-exit -E --jobs --reason -m --actor ;;
    resume) printf '%s\n' --approve --reason -m --actor ;;
    status) printf '%s\n' --number -n --since --state --check --metrics --watch ;;
    rerun) printf '%s\n' --wait --reason -m --actor ;;
    backfill) printf '%s\n' --from --to --rate --rerun-completed --dry-run --cancel --reason -m --actor ;;
    skip) printf '%s\n' --reason -m --actor ;;
    pause) printf '%s\n' --until --stop --reason -m --actor ;;
    unpause) printf '%s\n' --catch-up --reason -m --actor ;;
    stop) printf '%s\n' --force --no-wait --reason -m --actor ;;
    changes) printf '%s\n' --account --since --planned ;;
    logs) printf '%s\n' --run --follow -f ;;
    prune) printf '%s\n' --dry-run ;;
    doctor) printf '%s\n' --ddl --test-alert ;;
    init) printf '%s\n' --demo ;;
    add) printf '%s\n' --schedule --timezone --deadline ;;
    units) printf '%s\n' --systemd --crontab --every --spread --output --force --user --on-failure ;;
  esac
  printf '%s\n' --config -c --store --quiet -q --verbose -v --json --help
}

_reconcile() {
  local IFS=$' \t\n' line=${COMP_LINE:0:COMP_POINT}
  local -a words pass=() offered=()
  local cur option= command= job= kind= word head= n at=0 plain=
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  local last=$((${#words[@]} - 1))
  cur=${words[last]}
  for ((n = 1; n < last; n++)); do
    word=${words[n]}
    if [[ -n $plain || ($word != -* && -n $word) ]]; then
      if [[ -z $command ]]; then
        command=$word
      else
        ((at++)) || job=$word
      fi
    elif [[ $word == -- ]]; then
      plain=1
    elif [[ $word != *=* && -n $(_reconcile_kind "$command" "$word") ]]; then
      if ((n + 1 == last)); then
        option=$word
      elif [[ $word == -c || $word == --config || $word == --store ]]; then
        pass+=("$word" "${words[n + 1]/#\~\//$HOME/}")
      fi
      ((n++))
    elif [[ $word == --config=* || $word == --store=* ]]; then
      pass+=("$word")
    fi
  done
  if [[ -z $option && -z $plain && $cur == --*=* ]]; then
    option=${cur%%=*}
    head=$option=
    cur=${cur#*=}
  fi
  if [[ -n $option ]]; then
    kind=$(_reconcile_kind "$command" "$option")
  elif [[ -z $plain && $cur == -* ]]; then
    kind=option
  elif [[ -z $command ]]; then
    kind=command
  else
    kind=$(_reconcile_argument "$command" "$at")
  fi
  local program=${words[0]/#\~\//$HOME/}
  COMPREPLY=()
  case $kind in
    file | folder)
      [[ $kind == file ]] && n=-f || n=-d
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen $n -- "$cur")
      return
      ;;
    program)
      mapfile -t COMPREPLY < <(compgen -c -- "$cur")
      return
      ;;
    job) mapfile -t offered < <("$program" complete jobs "${pass[@]}" 2>/dev/null) ;;
    interval)
      mapfile -t offered < <("$program" complete intervals "$job" "${pass[@]}" 2>/dev/null)
      compopt -o nosort 2>/dev/null
      ;;
    choice) mapfile -t offered < <(_reconcile_choices "$command" "$option") ;;
    option) mapfile -t offered < <(_reconcile_options "$command") ;;
    command) offered=(run resume status rerun backfill skip pause unpause stop changes logs drill prune config doctor init add units) ;;
  esac
  for word in "${offered[@]}"; do
    [[ $word == "$cur"* ]] && COMPREPLY+=("$head$(printf %q "$word")")
  done
  # What bash takes for earlier words is not said again.
  local before=$head$cur
  if [[ $before == *:* && $COMP_WORDBREAKS == *:* ]]; then
    before=${before%"${before##*:}"}
  elif [[ $before == *=* && $COMP_WORDBREAKS == *=* ]]; then
    before=${before%"${before##*=}"}
  else
    before=
  fi
  COMPREPLY=("${COMPREPLY[@]#"$before"}")
}

complete -F _reconcile reconcile
