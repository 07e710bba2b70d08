//! What other threads tell the view: keys, and how stopping went. One descriptor says that there is
//! something, so that it can be waited for together with everything else.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use ratatui::crossterm::event::{self, KeyEventKind};

use super::update::Event;

/// The end that reads.
pub struct Inbox {
    events: Receiver<Event>,
    bell: PipeReader,
    sender: Messenger,
}

/// The end that tells.
pub struct Messenger {
    events: Sender<Event>,
    bell: PipeWriter,
}

impl Inbox {
    /// An empty one.
    pub fn open() -> io::Result<Inbox> {
        let (events_out, events) = mpsc::channel();
        let (bell, bell_out) = io::pipe()?;
        Ok(Inbox { events, bell, sender: Messenger { events: events_out, bell: bell_out } })
    }

    /// Something that can tell from another thread.
    pub fn messenger(&self) -> io::Result<Messenger> {
        Ok(Messenger { events: self.sender.events.clone(), bell: self.sender.bell.try_clone()? })
    }

    /// What to wait for.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Everything that was told. Call it when the descriptor is ready: it waits otherwise.
    pub fn take(&mut self) -> io::Result<Vec<Event>> {
        // One byte for each event: none is left behind without one.
        let mut rung = [0; 64];
        let count = self.bell.read(&mut rung)?;
        Ok(self.events.try_iter().take(count).collect())
    }
}

impl Messenger {
    /// Tells it; `false` where nobody listens any more.
    pub fn tell(&mut self, event: Event) -> bool {
        self.events.send(event).is_ok() && self.bell.write_all(&[0]).is_ok()
    }
}

/// Reads the keyboard in a thread of its own, which ends with the program.
pub fn read_keys(mut messenger: Messenger) -> io::Result<()> {
    thread::Builder::new().name("keys".to_owned()).spawn(move || {
        loop {
            let happened = match event::read() {
                Ok(event::Event::Key(key)) if key.kind != KeyEventKind::Release => Event::Key(key),
                Ok(event::Event::Resize(..)) => Event::Resized,
                Ok(_) => continue,
                Err(_) => Event::KeyboardLost,
            };
            let is_last = matches!(happened, Event::KeyboardLost);
            if !messenger.tell(happened) || is_last {
                return;
            }
        }
    })?;
    Ok(())
}
