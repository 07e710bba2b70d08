//! A terminal for full-screen programs: a private tmux server with one window.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::GENEROUS;

/// A terminal with a shell. Dropping it stops both.
pub struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    /// Opens a terminal of this size. `prepare` sets the environment and the directory of the server and its shell; the
    /// socket is in `folder`.
    pub fn open(folder: &Path, width: u16, height: u16, prepare: impl Fn(&mut Command)) -> Terminal {
        let terminal = Terminal { socket: folder.join("tmux") };
        let mut server = Command::new("tmux");
        prepare(&mut server);
        server
            .env_remove("TMUX")
            .env_remove("NO_COLOR")
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8");
        server.env("PS1", "$ ").arg("-u").arg("-f").arg("/dev/null").arg("-S").arg(&terminal.socket);
        let (width, height) = (width.to_string(), height.to_string());
        server.args(["new-session", "-d", "-x", &width, "-y", &height, "bash", "--norc", "--noprofile"]);
        let status = server.status().expect("tmux is needed: install it (on Debian: apt-get install tmux)");
        assert!(status.success(), "tmux does not start: {status}");
        terminal.wait_for("$");
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command
            .arg("-u")
            .arg("-S")
            .arg(&self.socket)
            .args(arguments)
            .stdin(Stdio::null())
            .env("LC_ALL", "C.UTF-8");
        let output = command.output().expect("tmux runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tmux {arguments:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Sends keys, by their tmux names.
    pub fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types a line and presses Enter.
    pub fn type_line(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.press(&["Enter"]);
    }

    /// Returns the text on the screen.
    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Returns the text on the screen with its colour codes.
    pub fn coloured(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// Returns whether a program uses the alternate screen.
    pub fn is_taken_over(&self) -> bool {
        self.tmux(&["display-message", "-p", "#{alternate_on}"]).trim() == "1"
    }

    /// Changes the size of the terminal.
    pub fn resize(&self, width: u16, height: u16) {
        self.tmux(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
    }

    /// Waits until `condition` accepts the screen, and returns the screen.
    pub fn wait_until(&self, what: &str, condition: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if condition(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < GENEROUS, "timed out waiting until {what}; the screen shows\n{screen}");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Waits until `text` is on the screen, and returns the screen.
    pub fn wait_for(&self, text: &str) -> String {
        self.wait_until(&format!("{text:?} is shown"), |screen| screen.contains(text))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut end = Command::new("tmux");
        end.arg("-S").arg(&self.socket).arg("kill-server").stdin(Stdio::null()).stderr(Stdio::null());
        // An error means that the server has exited already.
        let _ = end.status();
    }
}
