
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
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
            cand run 'Start a session'
            cand ps 'List sessions'
            cand top 'Watch sessions live'
            cand show 'Show one record, whole'
            cand logs 'Print a session''s output'
            cand wait 'Block until sessions end'
            cand stop 'End sessions, with every process of theirs'
            cand register 'Track a process that something else started'
            cand finish 'Record the end of a registered session'
            cand recover 'Put everything in order after a crash'
            cand resume 'Take over the loop of this agent''s earlier session'
            cand loop 'See and set the loop state that a session carries'
            cand prune 'Let old finished records go'
            cand forget 'Settle sessions that nobody can judge, on your word'
            cand rescue 'Find and bring back saved work'
            cand worktree 'See and remove the worktrees that Sexton made'
            cand ralph 'Let agents work on tickets, one after the other or several at once'
            cand backup 'Back the store up'
            cand restore 'Bring the records of a backup back'
            cand migrate 'Copy every record from one store to another'
            cand doctor 'Check the store and its surroundings'
            cand mcp 'Serve agents over the Model Context Protocol'
            cand metrics 'Print numbers for Prometheus'
            cand backends 'Show which backends are linked in'
            cand config 'Show every setting and where it came from'
            cand trust 'Allow this repository''s .sexton.toml to set everything'
            cand schema 'Print the JSON Schema of a record'
            cand completions 'Print shell completions'
            cand demo 'See the whole story on a throw-away state directory'
        }
        &'sexton;run'= {
            cand --cwd 'Run it there instead of here'
            cand --branch 'The branch to make for the worktree [default: sexton/<id>]'
            cand --base 'Where the branch begins [default: HEAD]'
            cand --env 'Add to its environment (repeatable)'
            cand --timeout 'End it after this long'
            cand --owner-pid 'The process whose death ends it'
            cand --on-owner-death 'What happens when its owner dies'
            cand --memory-max 'The most memory it may use, such as 2GiB (needs a control group)'
            cand --pids-max 'The most processes it may have (needs a control group)'
            cand --notify 'A shell command to run when it has ended'
            cand --name 'Call it so; unique among running sessions'
            cand --ticket 'The ticket it works on'
            cand --tag 'A key and value of your own (repeatable)'
            cand --agent 'Which agent it is: claude, codex, pi …'
            cand --agent-session 'The agent''s own id of its conversation'
            cand --thread 'The agent''s own id of its thread'
            cand --pane 'The terminal pane it is bound to'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand -d 'Return once it runs, and print its id'
            cand --detach 'Return once it runs, and print its id'
            cand -w 'Give it a git worktree of its own'
            cand --worktree 'Give it a git worktree of its own'
            cand --split-output 'Keep standard error in a file of its own'
            cand --no-owner 'Let it live on, even when it is started inside another session'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'sexton;ps'= {
            cand --status 'Only sessions with this status (repeatable; implies -a)'
            cand --ticket 'Only sessions of this ticket'
            cand --repo 'Only sessions with a worktree of this repository'
            cand --limit 'At most so many, the newest'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand -a 'Finished sessions too'
            cand --all 'Finished sessions too'
            cand -w 'Go on, and list again whenever something changes'
            cand --watch 'Go on, and list again whenever something changes'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;top'= {
            cand --filter 'Only sessions whose name, id, ticket, status or command contains this'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand -a 'Finished sessions too'
            cand --all 'Finished sessions too'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;show'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;logs'= {
            cand --tail 'Only the last lines'
            cand --cursor 'From this byte on; pass back the cursor of the answer before'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand -f 'Go on until the session has ended'
            cand --follow 'Go on until the session has ended'
            cand --stderr 'Standard error, of a session that was started with --split-output'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;wait'= {
            cand --timeout 'Give up after this long, with exit code 124'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;stop'= {
            cand --grace 'How long they have [default: stop.grace, 5s]'
            cand --signal 'What they are told first, instead of SIGINT'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --all 'Every session that runs'
            cand --force 'SIGKILL at once'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;register'= {
            cand --pid 'The process'
            cand --worktree 'The git worktree it works in; recorded, never removed'
            cand --owner-pid 'The process whose death makes it an orphan'
            cand --name 'Call it so; unique among running sessions'
            cand --ticket 'The ticket it works on'
            cand --tag 'A key and value of your own (repeatable)'
            cand --agent 'Which agent it is: claude, codex, pi …'
            cand --agent-session 'The agent''s own id of its conversation'
            cand --thread 'The agent''s own id of its thread'
            cand --pane 'The terminal pane it is bound to'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;finish'= {
            cand --code 'The code it exited with'
            cand --signal 'The signal that ended it'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;recover'= {
            cand --owner-pid 'Their new owner [default: the session around this command, else nobody]'
            cand --min-age 'Leave younger sessions alone [default: recover.min_age, 0s]'
            cand --stop-grace 'How long processes have before they are killed [default: stop.grace, 5s]'
            cand --stale 'Call dead sessions of this age abandoned [default: recover.stale, 30d]'
            cand --ttl 'Keep finished records for so long [default: retention.ttl, 7d]'
            cand --keep 'Keep so many finished records [default: retention.keep, 1000]'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --dry-run 'Say what would be done, and change nothing'
            cand --adopt 'Take over sessions whose owner died, instead of ending them'
            cand --no-backup 'Do not back the store up before the first change'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;resume'= {
            cand --agent-session 'The agent''s own id of its conversation'
            cand --thread 'The agent''s own id of its thread; counts where no conversation was recorded'
            cand --session 'The session that goes on [default: the one this command runs in]'
            cand --stale 'How long a loop that nobody touched can still be taken over [default: resume.stale]'
            cand --hook 'Read the JSON that this agent hands to its hooks, and never fail its turn'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --strict 'Exit with an error where the loop was refused, or where a hook had trouble'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'sexton;loop'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
            cand show 'Show a session''s loop'
            cand set 'Set keys of a session''s loop; `null` takes one away'
        }
        &'sexton;loop;show'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;loop;set'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;prune'= {
            cand --ttl 'Keep finished records for so long [default: retention.ttl, 7d]'
            cand --keep 'Keep so many of them [default: retention.keep, 1000]'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --dry-run 'Say how many would go, and change nothing'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;forget'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;rescue'= {
            cand --repo 'Look in this repository as well'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
            cand list 'List the rescues there are'
            cand show 'Show one, path by path'
            cand restore 'Put one back: staged, unstaged and untracked as they were'
            cand drop 'Let rescues go, for ever'
        }
        &'sexton;rescue;list'= {
            cand --repo 'Look in this repository as well'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;rescue;show'= {
            cand --repo 'Look in this repository as well'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;rescue;restore'= {
            cand --into 'Into this directory, which must be empty or not exist [default: where it was]'
            cand --repo 'Look in this repository as well'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;rescue;drop'= {
            cand --repo 'Look in this repository as well'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;worktree'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
            cand list 'List the worktrees there are'
            cand rm 'Remove the worktrees of finished sessions; what is in them is rescued first'
            cand prune 'Remove the worktrees of finished sessions that hold nothing of their own'
        }
        &'sexton;worktree;list'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;worktree;rm'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --if-clean 'Only where there is nothing to rescue'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;worktree;prune'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --dry-run 'Say which would go, and change nothing'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;ralph'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
            cand run 'Work on one ticket'
            cand start 'Work on every ticket that the query names'
        }
        &'sexton;ralph;run'= {
            cand --agent 'The agent''s command, with {ticket} in it [default: pi with its workflow]'
            cand --base 'The branch that work begins at and is merged into [default: the one checked out here]'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --capture-json 'Keep the agent''s standard output as <logs>/<ticket>.jsonl'
            cand --no-merge 'Leave finished work on its branch'
            cand --dry-run 'Say what would run, and change nothing'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;ralph;start'= {
            cand --parallel 'How many tickets at once [default: ralph.parallel, 1]'
            cand --max-iterations 'How many tickets in all [default: ralph.max_iterations, 50]'
            cand --ticket-query 'A shell command that prints tickets, one a line [default: asks tk]'
            cand --agent 'The agent''s command, with {ticket} in it [default: pi with its workflow]'
            cand --base 'The branch that work begins at and is merged into [default: the one checked out here]'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --fresh 'Forget what an earlier loop counted and set aside'
            cand --capture-json 'Keep the agent''s standard output as <logs>/<ticket>.jsonl'
            cand --no-merge 'Leave finished work on its branch'
            cand --dry-run 'Say what would run, and change nothing'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;backup'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --list 'Show the backups there are instead of making one'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;restore'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;migrate'= {
            cand --from 'The store to read'
            cand --to 'The store to add to'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;doctor'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --repair 'Mend what can be mended'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;mcp'= {
            cand --http 'Serve HTTP here instead: 127.0.0.1:8721; port 0 takes a free one'
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --allow-run 'Let agents run commands, as `mcp.allow` and `mcp.deny` say'
            cand --allow-stop 'Let agents stop sessions'
            cand --allow-recover 'Let agents recover, not only see what a recovery would do'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;metrics'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;backends'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;config'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;trust'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;schema'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;completions'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'sexton;demo'= {
            cand --state-dir 'Keep records, logs and backups here [env: SEXTON_STATE_DIR]'
            cand --store 'Use this store: sqlite:PATH, json:PATH … [env: SEXTON_STORE]'
            cand --probe 'See processes through this probe: auto, linux, portable [env: SEXTON_PROBE]'
            cand --json 'Print one JSON document on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
    ]
    $completions[$command]
}
