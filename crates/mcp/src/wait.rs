//! Waiting for a session to end: no thread waits, and nothing is asked again until something happened.

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

/// How often a client that waits is told so.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// The session once nobody is left who could end it, or as it stands when the time is up; says which. Who
/// stops waiting leaves the session as it is.
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
        let looked_for = id.clone();
        let look = move |server: &Server| Ok(pollster::block_on(server.house().look_for_end(&looked_for))?);
        let (session, watch) = server.blocking(look).await?;
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
                    return Err(Refusal::new("nobody waits any more", "the session goes on; wait for it again"));
                }
                () = server.keeper().closing.cancelled() => return Err(Refusal::of_closing()),
                _ = ticks.tick() => call.tell_progress(begun.elapsed(), limit, &what).await,
            }
        }
    }
}

#[expect(deprecated, reason = "its successor is unsafe for what lies about its descriptor; a watch does not")]
fn readable_at_end(watch: ProcessWatch) -> io::Result<AsyncFd<ProcessWatch>> {
    AsyncFd::with_interest(watch, Interest::READABLE)
}
