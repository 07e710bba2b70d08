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

complete -c sexton -n "__fish_sexton_needs_command" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_needs_command" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_needs_command" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_needs_command" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_needs_command" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_needs_command" -s V -l version -d 'Print version'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "run" -d 'Start a session'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "ps" -d 'List sessions'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "top" -d 'Show sessions live'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "show" -d 'Show one session\'s record'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "logs" -d 'Print a session\'s output'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "wait" -d 'Block until sessions end'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "stop" -d 'Stop sessions and all of their processes'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "register" -d 'Track a process that another program started'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "finish" -d 'Record the exit of a registered session'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "recover" -d 'Stop orphans, save their work and remove their worktrees'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "resume" -d 'Continue the loop of this agent\'s earlier session'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "loop" -d 'Show or set a session\'s loop state'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "prune" -d 'Delete old finished records'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "forget" -d 'Mark unreachable sessions as gone'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "rescue" -d 'List, show and restore saved work'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "worktree" -d 'List and remove the worktrees that Sexton created'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "ralph" -d 'Run agents on tickets, one at a time or in parallel'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "backup" -d 'Back up the store'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "restore" -d 'Restore the records from a backup'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "migrate" -d 'Copy all records from one store to another'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "doctor" -d 'Check the store and its environment'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "mcp" -d 'Run a Model Context Protocol server for agents'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "metrics" -d 'Print metrics for Prometheus'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "backends" -d 'List the available backends'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "config" -d 'Show every setting and its source'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "trust" -d 'Trust this repository\'s configuration files'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "schema" -d 'Print the JSON Schema of a record'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "completions" -d 'Print a shell completion script'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "demo" -d 'Run a demonstration in a temporary directory'
complete -c sexton -n "__fish_sexton_needs_command" -f -a "help" -d 'Show the help of a command, or the exit codes'
complete -c sexton -n "__fish_sexton_using_subcommand run" -l cwd -d 'Working directory of the command [default: the current directory]' -r -F
complete -c sexton -n "__fish_sexton_using_subcommand run" -l branch -d 'Branch to create for the worktree [default: sexton/<id>]' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l base -d 'Commit at which the branch starts [default: HEAD]' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l env -d 'Set an environment variable (repeatable)' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l timeout -d 'Stop the session after this time' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l owner-pid -d 'Owner process; the session is stopped when the owner exits' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l on-owner-death -d 'What to do when the owner exits' -r -f -a "end\t'Stop the session after a grace period, unless it is adopted before'
keep\t'Keep the session running'"
complete -c sexton -n "__fish_sexton_using_subcommand run" -l memory-max -d 'Memory limit, such as 2GiB (requires a control group)' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l pids-max -d 'Limit on the number of processes (requires a control group)' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l notify -d 'Shell command to run when the session has ended' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l name -d 'Session name (unique among running sessions)' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l ticket -d 'Ticket that the session works on' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l tag -d 'Custom tag (repeatable)' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l agent -d 'Kind of agent: claude, codex, pi, …' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l agent-session -d 'The agent\'s conversation id' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l thread -d 'The agent\'s thread id' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l pane -d 'Terminal pane that the session is bound to' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand run" -s d -l detach -d 'Run in the background and print the session id'
complete -c sexton -n "__fish_sexton_using_subcommand run" -s w -l worktree -d 'Run in a new git worktree'
complete -c sexton -n "__fish_sexton_using_subcommand run" -l split-output -d 'Write standard error to a separate file'
complete -c sexton -n "__fish_sexton_using_subcommand run" -l no-owner -d 'Start without an owner, even inside another session'
complete -c sexton -n "__fish_sexton_using_subcommand run" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sexton -n "__fish_sexton_using_subcommand ps" -l status -d 'Only sessions with this status (repeatable; implies -a)' -r
complete -c sexton -n "__fish_sexton_using_subcommand ps" -l ticket -d 'Only sessions of this ticket' -r
complete -c sexton -n "__fish_sexton_using_subcommand ps" -l repo -d 'Only sessions with a worktree of this repository' -r -F
complete -c sexton -n "__fish_sexton_using_subcommand ps" -l limit -d 'Maximum number of sessions, newest first' -r
complete -c sexton -n "__fish_sexton_using_subcommand ps" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ps" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ps" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ps" -s a -l all -d 'Include finished sessions'
complete -c sexton -n "__fish_sexton_using_subcommand ps" -s w -l watch -d 'Keep running, and list again after every change'
complete -c sexton -n "__fish_sexton_using_subcommand ps" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand ps" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand top" -l filter -d 'Only sessions whose name, id, ticket, status or command contains this' -r
complete -c sexton -n "__fish_sexton_using_subcommand top" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand top" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand top" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand top" -s a -l all -d 'Include finished sessions'
complete -c sexton -n "__fish_sexton_using_subcommand top" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand top" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand show" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand show" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand show" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand show" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand show" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand logs" -l tail -d 'Number of lines to print from the end of the log' -r
complete -c sexton -n "__fish_sexton_using_subcommand logs" -l cursor -d 'Start at this byte offset; use the cursor of the previous JSON document' -r
complete -c sexton -n "__fish_sexton_using_subcommand logs" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand logs" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand logs" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand logs" -s f -l follow -d 'Follow the output until the session ends'
complete -c sexton -n "__fish_sexton_using_subcommand logs" -l stderr -d 'Print standard error, for sessions started with --split-output'
complete -c sexton -n "__fish_sexton_using_subcommand logs" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand logs" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand wait" -l timeout -d 'Maximum time to wait; exit with code 123 if a session is still running' -r
complete -c sexton -n "__fish_sexton_using_subcommand wait" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand wait" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand wait" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand wait" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand wait" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand stop" -l grace -d 'Grace period before SIGKILL [default: stop.grace, 5s]' -r
complete -c sexton -n "__fish_sexton_using_subcommand stop" -l signal -d 'First signal to send [default: SIGINT]' -r
complete -c sexton -n "__fish_sexton_using_subcommand stop" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand stop" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand stop" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand stop" -l all -d 'Stop all running sessions'
complete -c sexton -n "__fish_sexton_using_subcommand stop" -l force -d 'Send SIGKILL immediately'
complete -c sexton -n "__fish_sexton_using_subcommand stop" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand stop" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand register" -l pid -d 'Process to track' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l worktree -d 'Git worktree of the process; recorded, never removed' -r -F
complete -c sexton -n "__fish_sexton_using_subcommand register" -l owner-pid -d 'Owner process; the session becomes an orphan when the owner exits' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l name -d 'Session name (unique among running sessions)' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l ticket -d 'Ticket that the session works on' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l tag -d 'Custom tag (repeatable)' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l agent -d 'Kind of agent: claude, codex, pi, …' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l agent-session -d 'The agent\'s conversation id' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l thread -d 'The agent\'s thread id' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l pane -d 'Terminal pane that the session is bound to' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand register" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand register" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand finish" -l code -d 'Exit code of the process' -r
complete -c sexton -n "__fish_sexton_using_subcommand finish" -l signal -d 'Signal that terminated the process' -r
complete -c sexton -n "__fish_sexton_using_subcommand finish" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand finish" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand finish" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand finish" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand finish" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l owner-pid -d 'New owner of adopted sessions [default: the enclosing session, or none]' -r
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l min-age -d 'Skip sessions younger than this [default: recover.min_age, 0s]' -r
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l stop-grace -d 'Grace period before SIGKILL [default: stop.grace, 5s]' -r
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l stale -d 'Mark dead sessions of this age as abandoned [default: recover.stale, 30d]' -r
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l ttl -d 'Maximum age of finished records [default: retention.ttl, 7d]' -r
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l keep -d 'Maximum number of finished records [default: retention.keep, 1000]' -r
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l dry-run -d 'Show what would be done without changing anything'
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l adopt -d 'Adopt sessions whose owner exited instead of stopping them'
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l no-backup -d 'Do not back up the store before the first change'
complete -c sexton -n "__fish_sexton_using_subcommand recover" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand recover" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l agent-session -d 'The agent\'s conversation id' -r
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l thread -d 'The agent\'s thread id; used if no conversation id was recorded' -r
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l session -d 'Session that continues the loop [default: the session that this command runs in]' -r
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l stale -d 'Maximum time since the last update of a loop that can be continued [default: resume.stale]' -r
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l hook -d 'Read the JSON that this agent passes to its hooks, and always exit with 0 unless `--strict` is set' -r -f -a "codex\t'Codex: `notify` in config.toml, or a hook of its hooks.json'
claude\t'Claude Code: a hook of its settings.json'"
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l strict -d 'Exit with an error if the loop cannot be continued or the hook fails'
complete -c sexton -n "__fish_sexton_using_subcommand resume" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand resume" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sexton -n "__fish_sexton_using_subcommand loop; and not __fish_seen_subcommand_from show set" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand loop; and not __fish_seen_subcommand_from show set" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand loop; and not __fish_seen_subcommand_from show set" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand loop; and not __fish_seen_subcommand_from show set" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand loop; and not __fish_seen_subcommand_from show set" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand loop; and not __fish_seen_subcommand_from show set" -f -a "show" -d 'Show a session\'s loop state'
complete -c sexton -n "__fish_sexton_using_subcommand loop; and not __fish_seen_subcommand_from show set" -f -a "set" -d 'Set keys of a session\'s loop state; `null` removes a key'
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from show" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from show" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from show" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from show" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from set" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from set" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from set" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from set" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand loop; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand prune" -l ttl -d 'Maximum age of finished records [default: retention.ttl, 7d]' -r
complete -c sexton -n "__fish_sexton_using_subcommand prune" -l keep -d 'Maximum number of finished records [default: retention.keep, 1000]' -r
complete -c sexton -n "__fish_sexton_using_subcommand prune" -l host -d 'Delete the records of this other host instead of those of the current host' -r
complete -c sexton -n "__fish_sexton_using_subcommand prune" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand prune" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand prune" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand prune" -l dry-run -d 'Show how many records would be deleted without deleting them'
complete -c sexton -n "__fish_sexton_using_subcommand prune" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand prune" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand forget" -l host -d 'All unsettled sessions of this other host' -r
complete -c sexton -n "__fish_sexton_using_subcommand forget" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand forget" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand forget" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand forget" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand forget" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -l repo -d 'Also search this repository' -r -F
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -f -a "list" -d 'List rescues'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -f -a "show" -d 'Show the changed paths of a rescue'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -f -a "restore" -d 'Restore a rescue with its staged, unstaged and untracked changes'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and not __fish_seen_subcommand_from list show restore drop" -f -a "drop" -d 'Delete rescues permanently'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from list" -l repo -d 'Also search this repository' -r -F
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from list" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from list" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from list" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from list" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from show" -l repo -d 'Also search this repository' -r -F
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from show" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from show" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from show" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from show" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from restore" -l into -d 'Directory to restore into, which must be empty or not exist [default: the original path]' -r -F
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from restore" -l repo -d 'Also search this repository' -r -F
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from restore" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from restore" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from restore" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from restore" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from restore" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from drop" -l repo -d 'Also search this repository' -r -F
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from drop" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from drop" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from drop" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from drop" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand rescue; and __fish_seen_subcommand_from drop" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and not __fish_seen_subcommand_from list rm prune" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and not __fish_seen_subcommand_from list rm prune" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and not __fish_seen_subcommand_from list rm prune" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and not __fish_seen_subcommand_from list rm prune" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and not __fish_seen_subcommand_from list rm prune" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and not __fish_seen_subcommand_from list rm prune" -f -a "list" -d 'List worktrees'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and not __fish_seen_subcommand_from list rm prune" -f -a "rm" -d 'Remove worktrees of finished sessions, after saving their work'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and not __fish_seen_subcommand_from list rm prune" -f -a "prune" -d 'Remove all worktrees of finished sessions that have no work to save'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from list" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from list" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from list" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from list" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from rm" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from rm" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from rm" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from rm" -l if-clean -d 'Remove a worktree only if it has no work to save'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from rm" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from rm" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from prune" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from prune" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from prune" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from prune" -l dry-run -d 'Show how many worktrees would be removed without removing them'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from prune" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand worktree; and __fish_seen_subcommand_from prune" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and not __fish_seen_subcommand_from run start" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and not __fish_seen_subcommand_from run start" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and not __fish_seen_subcommand_from run start" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and not __fish_seen_subcommand_from run start" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and not __fish_seen_subcommand_from run start" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and not __fish_seen_subcommand_from run start" -f -a "run" -d 'Work on one ticket'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and not __fish_seen_subcommand_from run start" -f -a "start" -d 'Work on all tickets that the query returns'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -l agent -d 'Agent command, containing {ticket} [default: pi with its workflow]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -l base -d 'Branch to start from and to merge into [default: the current branch]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -l capture-json -d 'Save the agent\'s standard output as <logs>/<ticket>.jsonl'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -l no-merge -d 'Do not merge finished work'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -l dry-run -d 'Show what would run without changing anything'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l parallel -d 'Number of tickets to work on in parallel [default: ralph.parallel, 1]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l max-iterations -d 'Maximum number of tickets [default: ralph.max_iterations, 50]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l ticket-query -d 'Shell command that prints one ticket per line [default: a query with tk]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l agent -d 'Agent command, containing {ticket} [default: pi with its workflow]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l base -d 'Branch to start from and to merge into [default: the current branch]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l fresh -d 'Reset the counts and the tickets set aside by an earlier loop'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l capture-json -d 'Save the agent\'s standard output as <logs>/<ticket>.jsonl'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l no-merge -d 'Do not merge finished work'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l dry-run -d 'Show what would run without changing anything'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand ralph; and __fish_seen_subcommand_from start" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand backup" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand backup" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand backup" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand backup" -l list -d 'List backups instead of creating one'
complete -c sexton -n "__fish_sexton_using_subcommand backup" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand backup" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand restore" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand restore" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand restore" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand restore" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand restore" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand migrate" -l from -d 'Source store' -r
complete -c sexton -n "__fish_sexton_using_subcommand migrate" -l to -d 'Target store' -r
complete -c sexton -n "__fish_sexton_using_subcommand migrate" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand migrate" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand migrate" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand migrate" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand migrate" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand doctor" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand doctor" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand doctor" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand doctor" -l repair -d 'Repair what can be repaired'
complete -c sexton -n "__fish_sexton_using_subcommand doctor" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand mcp" -l http -d 'Serve HTTP on this address: HOST:PORT (port 0 selects a free port), or unix:PATH for a Unix socket' -r
complete -c sexton -n "__fish_sexton_using_subcommand mcp" -l token-file -d 'File with the token that every request over TCP must carry [default: `mcp.token`, or the token in the state directory]' -r -F
complete -c sexton -n "__fish_sexton_using_subcommand mcp" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand mcp" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand mcp" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand mcp" -l allow-run -d 'Allow agents to run commands, subject to `mcp.allow` and `mcp.deny`'
complete -c sexton -n "__fish_sexton_using_subcommand mcp" -l allow-stop -d 'Allow agents to stop sessions'
complete -c sexton -n "__fish_sexton_using_subcommand mcp" -l allow-recover -d 'Allow agents to run a recovery instead of only a dry run'
complete -c sexton -n "__fish_sexton_using_subcommand mcp" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand mcp" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand metrics" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand metrics" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand metrics" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand metrics" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand metrics" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand backends" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand backends" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand backends" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand backends" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand backends" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand config" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand config" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand config" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand config" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand config" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand trust" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand trust" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand trust" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand trust" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand trust" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand schema" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand schema" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand schema" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand schema" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand schema" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand completions" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand completions" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand completions" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand completions" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand completions" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand demo" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand demo" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand demo" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand demo" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand demo" -s h -l help -d 'Print help'
complete -c sexton -n "__fish_sexton_using_subcommand help" -l state-dir -d 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]' -r
complete -c sexton -n "__fish_sexton_using_subcommand help" -l store -d 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand help" -l probe -d 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]' -r
complete -c sexton -n "__fish_sexton_using_subcommand help" -l json -d 'Print the result as JSON on stdout'
complete -c sexton -n "__fish_sexton_using_subcommand help" -s h -l help -d 'Print help'
