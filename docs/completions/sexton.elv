
use builtin;
use str;

set edit:completion:arg-completer[sexton] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'sexton'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'sexton'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
            cand run 'Start a session'
            cand ps 'List sessions'
            cand top 'Show sessions live'
            cand show 'Show one session''s record'
            cand logs 'Print a session''s output'
            cand wait 'Block until sessions end'
            cand stop 'Stop sessions and all of their processes'
            cand register 'Track a process that another program started'
            cand finish 'Record the exit of a registered session'
            cand recover 'Stop orphans, save their work and remove their worktrees'
            cand resume 'Continue the loop of this agent''s earlier session'
            cand loop 'Show or set a session''s loop state'
            cand prune 'Delete old finished records'
            cand forget 'Mark unreachable sessions as gone'
            cand rescue 'List, show and restore saved work'
            cand worktree 'List and remove the worktrees that Sexton created'
            cand ralph 'Run agents on tickets, one at a time or in parallel'
            cand backup 'Back up the store'
            cand restore 'Restore the records from a backup'
            cand migrate 'Copy all records from one store to another'
            cand doctor 'Check the store and its environment'
            cand mcp 'Run a Model Context Protocol server for agents'
            cand metrics 'Print metrics for Prometheus'
            cand backends 'List the available backends'
            cand config 'Show every setting and its source'
            cand trust 'Trust this repository''s configuration files'
            cand schema 'Print the JSON Schema of a record'
            cand completions 'Print a shell completion script'
            cand demo 'Run a demonstration in a temporary directory'
            cand help 'Show the help of a command, or the exit codes'
        }
        &'sexton;run'= {
            cand --cwd 'Working directory of the command [default: the current directory]'
            cand --branch 'Branch to create for the worktree [default: sexton/<id>]'
            cand --base 'Commit at which the branch starts [default: HEAD]'
            cand --env 'Set an environment variable (repeatable)'
            cand --timeout 'Stop the session after this time'
            cand --owner-pid 'Owner process; the session is stopped when the owner exits'
            cand --on-owner-death 'What to do when the owner exits'
            cand --memory-max 'Memory limit, such as 2GiB (requires a control group)'
            cand --pids-max 'Limit on the number of processes (requires a control group)'
            cand --notify 'Shell command to run when the session has ended'
            cand --name 'Session name (unique among running sessions)'
            cand --ticket 'Ticket that the session works on'
            cand --tag 'Custom tag (repeatable)'
            cand --agent 'Kind of agent: claude, codex, pi, …'
            cand --agent-session 'The agent''s conversation id'
            cand --thread 'The agent''s thread id'
            cand --pane 'Terminal pane that the session is bound to'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand -d 'Run in the background and print the session id'
            cand --detach 'Run in the background and print the session id'
            cand -w 'Run in a new git worktree'
            cand --worktree 'Run in a new git worktree'
            cand --split-output 'Write standard error to a separate file'
            cand --no-owner 'Start without an owner, even inside another session'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'sexton;ps'= {
            cand --status 'Only sessions with this status (repeatable; implies -a)'
            cand --ticket 'Only sessions of this ticket'
            cand --repo 'Only sessions with a worktree of this repository'
            cand --limit 'Maximum number of sessions, newest first'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand -a 'Include finished sessions'
            cand --all 'Include finished sessions'
            cand -w 'Keep running, and list again after every change'
            cand --watch 'Keep running, and list again after every change'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;top'= {
            cand --filter 'Only sessions whose name, id, ticket, status or command contains this'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand -a 'Include finished sessions'
            cand --all 'Include finished sessions'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;show'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;logs'= {
            cand --tail 'Number of lines to print from the end of the log'
            cand --cursor 'Start at this byte offset; use the cursor of the previous JSON document'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand -f 'Follow the output until the session ends'
            cand --follow 'Follow the output until the session ends'
            cand --stderr 'Print standard error, for sessions started with --split-output'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;wait'= {
            cand --timeout 'Maximum time to wait; exit with code 123 if a session is still running'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;stop'= {
            cand --grace 'Grace period before SIGKILL [default: stop.grace, 5s]'
            cand --signal 'First signal to send [default: SIGINT]'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --all 'Stop all running sessions'
            cand --force 'Send SIGKILL immediately'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;register'= {
            cand --pid 'Process to track'
            cand --worktree 'Git worktree of the process; recorded, never removed'
            cand --owner-pid 'Owner process; the session becomes an orphan when the owner exits'
            cand --name 'Session name (unique among running sessions)'
            cand --ticket 'Ticket that the session works on'
            cand --tag 'Custom tag (repeatable)'
            cand --agent 'Kind of agent: claude, codex, pi, …'
            cand --agent-session 'The agent''s conversation id'
            cand --thread 'The agent''s thread id'
            cand --pane 'Terminal pane that the session is bound to'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;finish'= {
            cand --code 'Exit code of the process'
            cand --signal 'Signal that terminated the process'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;recover'= {
            cand --owner-pid 'New owner of adopted sessions [default: the enclosing session, or none]'
            cand --min-age 'Skip sessions younger than this [default: recover.min_age, 0s]'
            cand --stop-grace 'Grace period before SIGKILL [default: stop.grace, 5s]'
            cand --stale 'Mark dead sessions of this age as abandoned [default: recover.stale, 30d]'
            cand --ttl 'Maximum age of finished records [default: retention.ttl, 7d]'
            cand --keep 'Maximum number of finished records [default: retention.keep, 1000]'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --dry-run 'Show what would be done without changing anything'
            cand --adopt 'Adopt sessions whose owner exited instead of stopping them'
            cand --no-backup 'Do not back up the store before the first change'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;resume'= {
            cand --agent-session 'The agent''s conversation id'
            cand --thread 'The agent''s thread id; used if no conversation id was recorded'
            cand --session 'Session that continues the loop [default: the session that this command runs in]'
            cand --stale 'Maximum time since the last update of a loop that can be continued [default: resume.stale]'
            cand --hook 'Read the JSON that this agent passes to its hooks, and always exit with 0 unless `--strict` is set'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --strict 'Exit with an error if the loop cannot be continued or the hook fails'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'sexton;loop'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
            cand show 'Show a session''s loop state'
            cand set 'Set keys of a session''s loop state; `null` removes a key'
        }
        &'sexton;loop;show'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;loop;set'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;prune'= {
            cand --ttl 'Maximum age of finished records [default: retention.ttl, 7d]'
            cand --keep 'Maximum number of finished records [default: retention.keep, 1000]'
            cand --host 'Delete the records of this other host instead of those of the current host'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --dry-run 'Show how many records would be deleted without deleting them'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;forget'= {
            cand --host 'All unsettled sessions of this other host'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;rescue'= {
            cand --repo 'Also search this repository'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
            cand list 'List rescues'
            cand show 'Show the changed paths of a rescue'
            cand restore 'Restore a rescue with its staged, unstaged and untracked changes'
            cand drop 'Delete rescues permanently'
        }
        &'sexton;rescue;list'= {
            cand --repo 'Also search this repository'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;rescue;show'= {
            cand --repo 'Also search this repository'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;rescue;restore'= {
            cand --into 'Directory to restore into, which must be empty or not exist [default: the original path]'
            cand --repo 'Also search this repository'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;rescue;drop'= {
            cand --repo 'Also search this repository'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;worktree'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
            cand list 'List worktrees'
            cand rm 'Remove worktrees of finished sessions, after saving their work'
            cand prune 'Remove all worktrees of finished sessions that have no work to save'
        }
        &'sexton;worktree;list'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;worktree;rm'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --if-clean 'Remove a worktree only if it has no work to save'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;worktree;prune'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --dry-run 'Show how many worktrees would be removed without removing them'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;ralph'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
            cand run 'Work on one ticket'
            cand start 'Work on all tickets that the query returns'
        }
        &'sexton;ralph;run'= {
            cand --agent 'Agent command, containing {ticket} [default: pi with its workflow]'
            cand --base 'Branch to start from and to merge into [default: the current branch]'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --capture-json 'Save the agent''s standard output as <logs>/<ticket>.jsonl'
            cand --no-merge 'Do not merge finished work'
            cand --dry-run 'Show what would run without changing anything'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;ralph;start'= {
            cand --parallel 'Number of tickets to work on in parallel [default: ralph.parallel, 1]'
            cand --max-iterations 'Maximum number of tickets [default: ralph.max_iterations, 50]'
            cand --ticket-query 'Shell command that prints one ticket per line [default: a query with tk]'
            cand --agent 'Agent command, containing {ticket} [default: pi with its workflow]'
            cand --base 'Branch to start from and to merge into [default: the current branch]'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --fresh 'Reset the counts and the tickets set aside by an earlier loop'
            cand --capture-json 'Save the agent''s standard output as <logs>/<ticket>.jsonl'
            cand --no-merge 'Do not merge finished work'
            cand --dry-run 'Show what would run without changing anything'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;backup'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --list 'List backups instead of creating one'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;restore'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;migrate'= {
            cand --from 'Source store'
            cand --to 'Target store'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;doctor'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --repair 'Repair what can be repaired'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;mcp'= {
            cand --http 'Serve HTTP on this address: HOST:PORT (port 0 selects a free port), or unix:PATH for a Unix socket'
            cand --token-file 'File with the token that every request over TCP must carry [default: `mcp.token`, or the token in the state directory]'
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --allow-run 'Allow agents to run commands, subject to `mcp.allow` and `mcp.deny`'
            cand --allow-stop 'Allow agents to stop sessions'
            cand --allow-recover 'Allow agents to run a recovery instead of only a dry run'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;metrics'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;backends'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;config'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;trust'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;schema'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;completions'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;demo'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;help'= {
            cand --state-dir 'Directory for records, logs and backups [env: SEXTON_STATE_DIR]'
            cand --store 'Store to use: sqlite:PATH, json:PATH, … [env: SEXTON_STORE]'
            cand --probe 'Process probe to use: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print the result as JSON on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
    ]
    $completions[$command]
}
