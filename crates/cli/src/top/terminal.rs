//! Sets up the terminal for the view and restores it: at the end, on a panic, on a signal, and while the program
//! is suspended.

use std::io::{self, IsTerminal, Stdout};
use std::panic;
use std::thread;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Position, Rect};
use ratatui::style::Color;
use rustix::process::{Signal, kill_current_process_group};

use super::draw::draw;
use super::state::State;

/// The terminal, set up for the view. Dropping it restores the terminal.
pub struct TerminalGuard {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    colour: bool,
}

/// Returns whether stdin and stdout are terminals.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

impl TerminalGuard {
    /// Sets up the terminal. A panic of this thread restores the terminal before it is printed. A panic of another
    /// thread is not printed; the code that started the thread reports it.
    pub fn enter(colour: bool) -> io::Result<TerminalGuard> {
        set_up()?;
        let guard = TerminalGuard { terminal: Terminal::new(CrosstermBackend::new(io::stdout()))?, colour };
        let (before, owner) = (panic::take_hook(), thread::current().id());
        panic::set_hook(Box::new(move |panicked| {
            if thread::current().id() == owner {
                restore();
                before(panicked);
            }
        }));
        Ok(guard)
    }

    /// Draws `state`.
    pub fn draw(&mut self, state: &mut State) -> io::Result<()> {
        let colour = self.colour;
        self.terminal.draw(|frame| {
            draw(frame, state);
            if !colour {
                // Bold, dim and reversed text is kept.
                frame.buffer_mut().content.iter_mut().for_each(|cell| cell.fg = Color::Reset);
            }
        })?;
        Ok(())
    }

    /// Restores the terminal and stops this process group, as on Ctrl-Z. Sets the terminal up again when the shell
    /// continues the program. Without a shell with job control, the process does not stop.
    pub fn suspend(&mut self) -> io::Result<()> {
        restore();
        kill_current_process_group(Signal::TSTP)?;
        self.resume()
    }

    /// Sets up the terminal again and forces a full redraw.
    pub fn resume(&mut self) -> io::Result<()> {
        set_up()?;
        // Not `clear`: it queries the cursor position, and the terminal's answer arrives as keyboard input.
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from((Position::ORIGIN, size)))
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        restore();
    }
}

fn set_up() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)
}

fn restore() {
    // Both are attempted even if one fails; a closed terminal needs neither.
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Set in the child process of the test, which panics on its own terminal.
    const PANICS: &str = "SEXTON_TEST_PANICS";

    #[test]
    fn panic_restores_the_terminal_before_it_is_printed() {
        if std::env::var_os(PANICS).is_some() {
            let _guard = TerminalGuard::enter(true).unwrap();
            panic!("in the view");
        }
        let folder = tempfile::tempdir().unwrap();
        let terminal = sexton_test_harness::tmux::Terminal::open(folder.path(), 100, 30, |command| {
            command.env(PANICS, "1").env("RUST_BACKTRACE", "0");
        });
        let this = sexton_test_harness::quote(std::env::current_exe().unwrap().to_str().unwrap());
        let name = "top::terminal::tests::panic_restores_the_terminal_before_it_is_printed";
        let check = "stty -a | grep -ow -e -echo -e -icanon; echo checked";
        terminal.type_line(&format!("clear; {this} --exact {name} --nocapture; {check}"));
        let screen = terminal.wait_for("\nchecked");
        assert!(screen.contains("in the view"), "{screen}");
        assert!(!screen.contains("\n-echo") && !screen.contains("\n-icanon"), "{screen}");
        assert!(!terminal.is_taken_over());
    }
}
