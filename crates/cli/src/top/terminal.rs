//! The terminal while the view is on it, and how it is given back: at the end, on a panic, on a signal, and
//! while the program is suspended.

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

/// The terminal, taken over. Dropping it gives it back.
pub struct Stage {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    colour: bool,
}

/// Whether there is somebody to look and to press keys.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

impl Stage {
    /// Takes the terminal over. A panic of this thread gives it back before it is reported; one of another
    /// thread is for whoever started that thread to tell.
    pub fn enter(colour: bool) -> io::Result<Stage> {
        take_over()?;
        let stage = Stage { terminal: Terminal::new(CrosstermBackend::new(io::stdout()))?, colour };
        let (before, owner) = (panic::take_hook(), thread::current().id());
        panic::set_hook(Box::new(move |panicked| {
            if thread::current().id() == owner {
                give_back();
                before(panicked);
            }
        }));
        Ok(stage)
    }

    /// Shows `state`.
    pub fn draw(&mut self, state: &mut State) -> io::Result<()> {
        let colour = self.colour;
        self.terminal.draw(|frame| {
            draw(frame, state);
            if !colour {
                // What is bold, faint or reversed stays.
                frame.buffer_mut().content.iter_mut().for_each(|cell| cell.fg = Color::Reset);
            }
        })?;
        Ok(())
    }

    /// Gives the terminal to the shell, as programs do on Ctrl-Z, and takes it over again when the shell
    /// brings this program back. Where there is no shell that could, nothing stops.
    pub fn suspend(&mut self) -> io::Result<()> {
        give_back();
        kill_current_process_group(Signal::TSTP)?;
        self.resume()
    }

    /// Takes the terminal over again, and shows everything anew.
    pub fn resume(&mut self) -> io::Result<()> {
        take_over()?;
        // Not `clear`: that would ask the terminal where its cursor is, and the answer comes as keys do.
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from((Position::ORIGIN, size)))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        give_back();
    }
}

fn take_over() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen)
}

fn give_back() {
    // Each is tried whatever became of the other; a terminal that is gone needs neither.
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Set where this test is to panic, on a terminal of its own.
    const PANICS: &str = "SEXTON_TEST_PANICS";

    #[test]
    fn a_panic_gives_the_terminal_back_before_it_is_reported() {
        if std::env::var_os(PANICS).is_some() {
            let _stage = Stage::enter(true).unwrap();
            panic!("on the stage");
        }
        let folder = tempfile::tempdir().unwrap();
        let terminal = sexton_field::tmux::Terminal::open(folder.path(), 100, 30, |command| {
            command.env(PANICS, "1").env("RUST_BACKTRACE", "0");
        });
        let this = std::env::current_exe().unwrap();
        let name = "top::terminal::tests::a_panic_gives_the_terminal_back_before_it_is_reported";
        let look = "stty -a | grep -ow -e -echo -e -icanon; echo looked";
        terminal.type_line(&format!("clear; {} --exact {name} --nocapture; {look}", this.display()));
        let screen = terminal.wait_for("\nlooked");
        assert!(screen.contains("on the stage"), "{screen}");
        assert!(!screen.contains("\n-echo") && !screen.contains("\n-icanon"), "{screen}");
        assert!(!terminal.is_taken_over());
    }
}
