//! A stream that limits how long its client may stop reading.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::limits::STALL_TIME;
use super::slots::Slot;

/// A stream on which a write fails if the client reads nothing for [`STALL_TIME`].
pub(super) struct Wire<S> {
    stream: S,
    slot: Arc<Slot>,
    /// When the pending write fails.
    limit: Pin<Box<Sleep>>,
    stalled: bool,
}

impl<S> Wire<S> {
    pub(super) fn new(stream: S, slot: Arc<Slot>) -> Wire<S> {
        Wire { stream, slot, limit: Box::pin(sleep(STALL_TIME)), stalled: false }
    }

    /// Passes on the result of a write, or fails if it has been pending for too long.
    fn bound<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match (written, self.stalled) {
            (Poll::Pending, false) => {
                self.stalled = true;
                self.slot.stall(true);
                self.limit.as_mut().reset(Instant::now() + STALL_TIME);
            }
            (Poll::Pending, true) => {}
            (written, true) => {
                self.stalled = false;
                self.slot.stall(false);
                return written;
            }
            (written, false) => return written,
        }
        ready!(self.limit.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.bound(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.bound(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.bound(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.bound(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::super::slots::{Peer, Slots};
    use super::*;

    #[test]
    fn i9_write_to_client_that_reads_nothing_times_out() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let slot = Slots::default().take(Peer::Address(IpAddr::V4(Ipv4Addr::LOCALHOST))).unwrap();
            let (ours, mut theirs) = duplex(64);
            let mut wire = Wire::new(ours, Arc::new(slot));
            wire.write_all(&[b'x'; 64]).await.unwrap();
            let mut late = [0; 64];
            // A slow reader does not time out: each write restarts the limit.
            let (written, read) = tokio::join!(wire.write_all(&[b'y'; 64]), theirs.read_exact(&mut late));
            assert!(written.is_ok() && read.is_ok() && !wire.stalled);
            tokio::time::pause();
            let begun = Instant::now();
            let failed = wire.write_all(&[b'z'; 65]).await.unwrap_err();
            assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
            assert_eq!(begun.elapsed().as_secs(), STALL_TIME.as_secs());
        });
    }
}
