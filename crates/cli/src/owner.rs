//! The enclosing session, as the owner of the sessions that a command starts or adopts.

use sexton_core::probe::COOKIE;
use sexton_core::{ProcessIdentity, ProcessProbe, SessionId};
use sexton_service::Enclosing;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::Screen;

/// Returns the command of the session that this program runs in, if any. Warns if the cookie names a session
/// that is not running.
pub async fn find_enclosing_owner(
    probe: &dyn ProcessProbe,
    context: &Context<'_>,
) -> Result<Option<ProcessIdentity>, Failure> {
    let enclosing = context.find_enclosing(probe).await?;
    if let Enclosing::NotRunning(id) = &enclosing {
        warn_of_cookie(id, context.screen);
    }
    Ok(enclosing.into_owner())
}

/// Warns that the cookie names a session that is not running.
pub fn warn_of_cookie(id: &SessionId, screen: &Screen) {
    screen.warn(&format!(
        "{COOKIE} names session {id}, which is not running in this store; the new session has no owner"
    ));
}
