//! Events from other threads to the view: keys, and the results of stopping sessions. A file descriptor becomes
//! ready with every event, so that the view can poll it together with its other sources.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use ratatui::crossterm::event::{self, KeyEventKind};

use super::update::Event;

/// The receiving end.
pub struct Inbox {
    events: Receiver<Event>,
    wake: PipeReader,
    sender: EventSender,
}

/// The sending end.
pub struct EventSender {
    events: Sender<Event>,
    wake: PipeWriter,
}

impl Inbox {
    /// Creates an empty inbox.
    pub fn open() -> io::Result<Inbox> {
        let (events_out, events) = mpsc::channel();
        let (wake, wake_out) = io::pipe()?;
        Ok(Inbox { events, wake, sender: EventSender { events: events_out, wake: wake_out } })
    }

    /// Returns a sender for another thread.
    pub fn sender(&self) -> io::Result<EventSender> {
        Ok(EventSender { events: self.sender.events.clone(), wake: self.sender.wake.try_clone()? })
    }

    /// Returns the descriptor to poll.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Returns the received events. Blocks unless the descriptor is ready.
    pub fn take(&mut self) -> io::Result<Vec<Event>> {
        // The pipe carries one byte per event, so a remaining event keeps the descriptor ready.
        let mut bytes = [0; 64];
        let count = self.wake.read(&mut bytes)?;
        Ok(self.events.try_iter().take(count).collect())
    }
}

impl EventSender {
    /// Sends an event. Returns `false` if the inbox is closed.
    pub fn send(&mut self, event: Event) -> bool {
        self.events.send(event).is_ok() && self.wake.write_all(&[0]).is_ok()
    }
}

/// Starts a thread that reads the keyboard until the program exits.
pub fn read_keys(mut sender: EventSender) -> io::Result<()> {
    thread::Builder::new().name("keys".to_owned()).spawn(move || {
        loop {
            let received = match event::read() {
                Ok(event::Event::Key(key)) if key.kind != KeyEventKind::Release => Event::Key(key),
                Ok(event::Event::Resize(..)) => Event::Resized,
                Ok(_) => continue,
                Err(_) => Event::KeyboardLost,
            };
            let is_last = matches!(received, Event::KeyboardLost);
            if !sender.send(received) || is_last {
                return;
            }
        }
    })?;
    Ok(())
}
