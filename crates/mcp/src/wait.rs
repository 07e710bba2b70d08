//! Waits for a session to end without blocking a thread or polling.

use std::io;
use std::time::Duration;

use sexton_core::{Session, SessionId};
use sexton_supervise::ProcessWatch;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, interval_at, sleep_until};

use crate::call::Call;
use crate::refusal::Refusal;
use crate::server::Server;

/// Interval between progress notifications to a waiting client.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Waits until the session has no live process left to wait for, or until `limit` has passed. Returns the session, and
/// `true` in the first case. Cancelling the wait does not affect the session.
pub(crate) async fn wait_for_end(
    server: &Server,
    id: &SessionId,
    limit: Duration,
    call: &Call,
) -> Result<(Session, bool), Refusal> {
    let begun = Instant::now();
    let until = begun + limit;
    let mut ticks = interval_at(begun + PROGRESS_EVERY, PROGRESS_EVERY);
    let what = format!("session {id} is running");
    loop {
        let wanted = id.clone();
        let probe = move |server: &Server| Ok(pollster::block_on(server.service().look_for_end(&wanted))?);
        let (session, watch) = server.blocking(probe).await?;
        let Some(watch) = watch else { return Ok((session, true)) };
        let unwatchable = |error| Refusal::internal(format!("cannot wait for session {id}: {error}"));
        let watch = readable_at_end(watch).map_err(unwatchable)?;
        loop {
            tokio::select! {
                ended = watch.readable() => {
                    ended.map_err(unwatchable)?.retain_ready();
                    break;
                }
                () = sleep_until(until) => return Ok((session, false)),
                () = call.cancelled.cancelled() => {
                    return Err(Refusal::new("the wait was cancelled", "the session continues; wait for it again"));
                }
                () = server.started_sessions().closing.cancelled() => return Err(Refusal::of_closing()),
                _ = ticks.tick() => call.report_progress(begun.elapsed(), limit, &what).await,
            }
        }
    }
}

#[expect(
    deprecated,
    reason = "the replacement is unsafe; a ProcessWatch always returns the same open descriptor"
)]
fn readable_at_end(watch: ProcessWatch) -> io::Result<AsyncFd<ProcessWatch>> {
    AsyncFd::with_interest(watch, Interest::READABLE)
}
