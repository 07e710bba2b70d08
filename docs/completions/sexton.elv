
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
            cand show 'Show one record, whole'
            cand logs 'Print a session''s output'
            cand wait 'Block until sessions end'
            cand stop 'End sessions, with every process of theirs'
            cand register 'Track a process that something else started'
            cand finish 'Record the end of a registered session'
            cand backup 'Back the store up'
            cand restore 'Bring the records of a backup back'
            cand migrate 'Copy every record from one store to another'
            cand doctor 'Check the store and its surroundings'
            cand backends 'Show which backends are linked in'
            cand config 'Show every setting and where it came from'
            cand trust 'Allow this repository''s .sexton.toml to set everything'
            cand schema 'Print the JSON Schema of a record'
            cand completions 'Print shell completions'
            cand demo 'See the whole story on a throw-away state directory'
        }
        &'sexton;run'= {
            cand --cwd 'Run it there instead of here'
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
