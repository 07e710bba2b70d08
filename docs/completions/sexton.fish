# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_sexton_global_optspecs
    string join \n state-dir= store= probe= json h/help V/version
end

function __fish_sexton_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_sexton_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_sexton_using_subcommand
    set -l cmd (__fish_sexton_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c sexton -n "__fish_sexton_needs_command" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_needs_command" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_needs_command" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_needs_command" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_needs_command" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_needs_command" -s V -l version -d 'Print version'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "run" -d 'Start a session'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "ps" -d 'List sessions'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "top" -d 'Watch sessions live'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "show" -d 'Show one record, whole'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "logs" -d 'Print a session\'s output'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "wait" -d 'Block until sessions end'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "stop" -d 'End sessions, with every process of theirs'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "register" -d 'Track a process that something else started'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "finish" -d 'Record the end of a registered session'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "recover" -d 'Put everything in order after a crash'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "resume" -d 'Take over the loop of this agent\'s earlier session'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "loop" -d 'See and set the loop state that a session carries'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "prune" -d 'Let old finished records go'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "forget" -d 'Settle sessions that nobody can judge, on your word'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "rescue" -d 'Find and bring back saved work'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "worktree" -d 'See and remove the worktrees that Sexton made'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "ralph" -d 'Let agents work on tickets, one after the other or several at once'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "backup" -d 'Back the store up'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "restore" -d 'Bring the records of a backup back'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "migrate" -d 'Copy every record from one store to another'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "doctor" -d 'Check the store and its surroundings'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "mcp" -d 'Serve agents over the Model Context Protocol'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "metrics" -d 'Print numbers for Prometheus'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "backends" -d 'Show which backends are linked in'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "config" -d 'Show every setting and where it came from'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "trust" -d 'Allow this repository\'s .sexton.toml to set everything'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "schema" -d 'Print the JSON Schema of a record'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "completions" -d 'Print shell completions'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "demo" -d 'See the whole story on a throw-away state directory'
complete -c sexton -n "__fish_sexton_using_subcommand run" -l cwd -d 'Run it there instead of here' -r -F
complete -c sexton -n "__fish_sexton_using_subcommand run" -l branch -d 'The branch to make for the worktree [default: sexton/<id>]' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l base -d 'Where the branch begins [default: HEAD]' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l env -d 'Add to its environment (repeatable)' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l timeout -d 'End it after this long' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l owner-pid -d 'The process whose death ends it' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l on-owner-death -d 'What happens when its owner dies' -r -f -a "end\t'It is ended after a grace period, unless it was adopted by then'
keep\t'It lives on'"
complete -c sexton -n "__fish_sexton_using_subcommand run" -l memory-max -d 'The most memory it may use, such as 2GiB (needs a control group)' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l pids-max -d 'The most processes it may have (needs a control group)' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l notify -d 'A shell command to run when it has ended' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l name -d 'Call it so; unique among running sessions' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l ticket -d 'The ticket it works on' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l tag -d 'A key and value of your own (repeatable)' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l agent -d 'Which agent it is: claude, codex, pi …' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l agent-session -d 'The agent\'s own id of its conversation' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l thread -d 'The agent\'s own id of its thread' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l pane -d 'The terminal pane it is bound to' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -s d -l detach -d 'Return once it runs, and print its id'
complete -c sexton -n "__fish_sexton_using_subcommand run" -s w -l worktree -d 'Give it a git worktree of its own'
complete -c sexton -n "__fish_sexton_using_subcommand run" -l split-output -d 'Keep standard error in a file of its own'
complete -c sexton -n "__fish_sexton_using_subcommand run" -l no-owner -d 'Let it live on, even when it is started inside another session'
complete -c sexton -n "__fish_sexton_using_subcommand run" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sexton -n "__fish_sexton_using_subcommand ps" -l status -d 'Only sessions with this status (repeatable; implies -a)' -r
complete -c sexton -n "__fish_sexton_using_subcommand ps" -l ticket -d 'Only sessions of this ticket' -r
complete -c sexton -n "__fish_sexton_using_subcommand ps" -l repo -d 'Only sessions with a worktree of this repository' -r -F
complete -c sexton -n "__fish_sexton_using_subcommand ps" -l limit -d 'At most so many, the newest' -r
complete -c sexton -n "__fish_sexton_using_subcommand ps" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ps" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ps" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ps" -s a -l all -d 'Finished sessions too'
complete -c sexton -n "__fish_sexton_using_subcommand ps" -s w -l watch -d 'Go on, and list again whenever something changes'
complete -c sexton -n "__fish_sexton_using_subcommand ps" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand ps" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand top" -l filter -d 'Only sessions whose name, id, ticket, status or command contains this' -r
complete -c sexton -n "__fish_sexton_using_subcommand top" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand top" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand top" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand top" -s a -l all -d 'Finished sessions too'
complete -c sexton -n "__fish_sexton_using_subcommand top" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand top" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand show" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand show" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand show" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand show" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand show" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand logs" -l tail -d 'Only the last lines' -r
complete -c sexton -n "__fish_sexton_using_subcommand logs" -l cursor -d 'From this byte on; pass back the cursor of the answer before' -r
complete -c sexton -n "__fish_sexton_using_subcommand logs" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand logs" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand logs" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand logs" -s f -l follow -d 'Go on until the session has ended'
complete -c sexton -n "__fish_sexton_using_subcommand logs" -l stderr -d 'Standard error, of a session that was started with --split-output'
complete -c sexton -n "__fish_sexton_using_subcommand logs" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand logs" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand wait" -l timeout -d 'Give up after this long, with exit code 124' -r
complete -c sexton -n "__fish_sexton_using_subcommand wait" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand wait" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand wait" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand wait" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand wait" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand stop" -l grace -d 'How long they have [default: stop.grace, 5s]' -r
complete -c sexton -n "__fish_sexton_using_subcommand stop" -l signal -d 'What they are told first, instead of SIGINT' -r
complete -c sexton -n "__fish_sexton_using_subcommand stop" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand stop" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand stop" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand stop" -l all -d 'Every session that runs'
complete -c sexton -n "__fish_sexton_using_subcommand stop" -l force -d 'SIGKILL at once'
complete -c sexton -n "__fish_sexton_using_subcommand stop" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand stop" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand register" -l pid -d 'The process' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l worktree -d 'The git worktree it works in; recorded, never removed' -r -F
complete -c sexton -n "__fish_sexton_using_subcommand register" -l owner-pid -d 'The process whose death makes it an orphan' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l name -d 'Call it so; unique among running sessions' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l ticket -d 'The ticket it works on' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l tag -d 'A key and value of your own (repeatable)' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l agent -d 'Which agent it is: claude, codex, pi …' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l agent-session -d 'The agent\'s own id of its conversation' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l thread -d 'The agent\'s own id of its thread' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l pane -d 'The terminal pane it is bound to' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand register" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand finish" -l code -d 'The code it exited with' -r
complete -c sexton -n "__fish_sexton_using_subcommand finish" -l signal -d 'The signal that ended it' -r
complete -c sexton -n "__fish_sexton_using_subcommand finish" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand finish" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand finish" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand finish" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand finish" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l owner-pid -d 'Their new owner [default: the session around this command, else nobody]' -r
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l min-age -d 'Leave younger sessions alone [default: recover.min_age, 0s]' -r
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l stop-grace -d 'How long processes have before they are killed [default: stop.grace, 5s]' -r
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l stale -d 'Call dead sessions of this age abandoned [default: recover.stale, 30d]' -r
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l ttl -d 'Keep finished records for so long [default: retention.ttl, 7d]' -r
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l keep -d 'Keep so many finished records [default: retention.keep, 1000]' -r
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l dry-run -d 'Say what would be done, and change nothing'
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l adopt -d 'Take over sessions whose owner died, instead of ending them'
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l no-backup -d 'Do not back the store up before the first change'
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand recover" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l agent-session -d 'The agent\'s own id of its conversation' -r
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l thread -d 'The agent\'s own id of its thread; counts where no conversation was recorded' -r
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l session -d 'The session that goes on [default: the one this command runs in]' -r
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l stale -d 'How long a loop that nobody touched can still be taken over [default: resume.stale]' -r
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l hook -d 'Read the JSON that this agent hands to its hooks, and never fail its turn' -r -f -a "codex\t'Codex: `notify` in config.toml, or a hook of its hooks.json'
claude\t'Claude Code: a hook of its settings.json'"
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l strict -d 'Exit with an error where the loop was refused, or where a hook had trouble'
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand resume" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sexton -n "__fish_sexton_using_subcommand loop; and not __fish_seen_subcommand_from show set" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand loop; and not __fish_seen_subcommand_from show set" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand loop; and not __fish_seen_subcommand_from show set" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand loop; and not __fish_seen_subcommand_from show set" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand loop; and not __fish_seen_subcommand_from show set" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand loop; and not __fish_seen_subcommand_from show set" -f -a "show" -d 'Show a session\'s loop'
complete -c sexton -n "__fish_sexton_using_subcommand loop; and not __fish_seen_subcommand_from show set" -f -a "set" -d 'Set keys of a session\'s loop; `null` takes one away'
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from show" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from show" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from show" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from show" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from set" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from set" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from set" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from set" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand prune" -l ttl -d 'Keep finished records for so long [default: retention.ttl, 7d]' -r
complete -c sexton -n "__fish_sexton_using_subcommand prune" -l keep -d 'Keep so many of them [default: retention.keep, 1000]' -r
complete -c sexton -n "__fish_sexton_using_subcommand prune" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand prune" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand prune" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand prune" -l dry-run -d 'Say how many would go, and change nothing'
complete -c sexton -n "__fish_sexton_using_subcommand prune" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand prune" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand forget" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand forget" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand forget" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand forget" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand forget" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -l repo -d 'Look in this repository as well' -r -F
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -f -a "list" -d 'List the rescues there are'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -f -a "show" -d 'Show one, path by path'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -f -a "restore" -d 'Put one back: staged, unstaged and untracked as they were'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -f -a "drop" -d 'Let rescues go, for ever'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from list" -l repo -d 'Look in this repository as well' -r -F
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from list" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from list" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from list" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from list" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from show" -l repo -d 'Look in this repository as well' -r -F
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from show" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from show" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from show" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from show" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from restore" -l into -d 'Into this directory, which must be empty or not exist [default: where it was]' -r -F
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from restore" -l repo -d 'Look in this repository as well' -r -F
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from restore" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from restore" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from restore" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from restore" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from restore" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from drop" -l repo -d 'Look in this repository as well' -r -F
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from drop" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from drop" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from drop" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from drop" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from drop" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and not __fish_seen_subcommand_from list rm prune" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and not __fish_seen_subcommand_from list rm prune" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and not __fish_seen_subcommand_from list rm prune" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and not __fish_seen_subcommand_from list rm prune" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and not __fish_seen_subcommand_from list rm prune" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and not __fish_seen_subcommand_from list rm prune" -f -a "list" -d 'List the worktrees there are'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and not __fish_seen_subcommand_from list rm prune" -f -a "rm" -d 'Remove the worktrees of finished sessions; what is in them is rescued first'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and not __fish_seen_subcommand_from list rm prune" -f -a "prune" -d 'Remove the worktrees of finished sessions that hold nothing of their own'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from list" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from list" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from list" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from list" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from rm" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from rm" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from rm" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from rm" -l if-clean -d 'Only where there is nothing to rescue'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from rm" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from rm" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from prune" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from prune" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from prune" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from prune" -l dry-run -d 'Say which would go, and change nothing'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from prune" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from prune" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and not __fish_seen_subcommand_from run start" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and not __fish_seen_subcommand_from run start" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and not __fish_seen_subcommand_from run start" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and not __fish_seen_subcommand_from run start" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and not __fish_seen_subcommand_from run start" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and not __fish_seen_subcommand_from run start" -f -a "run" -d 'Work on one ticket'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and not __fish_seen_subcommand_from run start" -f -a "start" -d 'Work on every ticket that the query names'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -l agent -d 'The agent\'s command, with {ticket} in it [default: pi with its workflow]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -l base -d 'The branch that work begins at and is merged into [default: the one checked out here]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -l capture-json -d 'Keep the agent\'s standard output as <logs>/<ticket>.jsonl'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -l no-merge -d 'Leave finished work on its branch'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -l dry-run -d 'Say what would run, and change nothing'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l parallel -d 'How many tickets at once [default: ralph.parallel, 1]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l max-iterations -d 'How many tickets in all [default: ralph.max_iterations, 50]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l ticket-query -d 'A shell command that prints tickets, one a line [default: asks tk]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l agent -d 'The agent\'s command, with {ticket} in it [default: pi with its workflow]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l base -d 'The branch that work begins at and is merged into [default: the one checked out here]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l fresh -d 'Forget what an earlier loop counted and set aside'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l capture-json -d 'Keep the agent\'s standard output as <logs>/<ticket>.jsonl'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l no-merge -d 'Leave finished work on its branch'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l dry-run -d 'Say what would run, and change nothing'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand backup" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand backup" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand backup" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand backup" -l list -d 'Show the backups there are instead of making one'
complete -c sexton -n "__fish_sexton_using_subcommand backup" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand backup" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand restore" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand restore" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand restore" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand restore" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand restore" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand migrate" -l from -d 'The store to read' -r
complete -c sexton -n "__fish_sexton_using_subcommand migrate" -l to -d 'The store to add to' -r
complete -c sexton -n "__fish_sexton_using_subcommand migrate" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand migrate" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand migrate" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand migrate" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand migrate" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand doctor" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand doctor" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand doctor" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand doctor" -l repair -d 'Mend what can be mended'
complete -c sexton -n "__fish_sexton_using_subcommand doctor" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand mcp" -l http -d 'Serve HTTP here instead: 127.0.0.1:8721; port 0 takes a free one' -r
complete -c sexton -n "__fish_sexton_using_subcommand mcp" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand mcp" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand mcp" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand mcp" -l allow-run -d 'Let agents run commands, as `mcp.allow` and `mcp.deny` say'
complete -c sexton -n "__fish_sexton_using_subcommand mcp" -l allow-stop -d 'Let agents stop sessions'
complete -c sexton -n "__fish_sexton_using_subcommand mcp" -l allow-recover -d 'Let agents recover, not only see what a recovery would do'
complete -c sexton -n "__fish_sexton_using_subcommand mcp" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand mcp" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand metrics" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand metrics" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand metrics" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand metrics" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand metrics" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand backends" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand backends" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand backends" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand backends" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand backends" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand config" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand config" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand config" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand config" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand config" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand trust" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand trust" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand trust" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand trust" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand trust" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand schema" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand schema" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand schema" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand schema" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand schema" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand completions" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand completions" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand completions" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand completions" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand completions" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand demo" -l state-dir -d 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand demo" -l store -d 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand demo" -l probe -d 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand demo" -l json -d 'Print one JSON document on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand demo" -s h -l help -d 'Print help'
