//! The session around a command, as the owner of what the command starts or adopts.

use sexton_core::probe::COOKIE;
use sexton_core::{ProcessIdentity, ProcessProbe, SessionId};
use sexton_embed::Enclosing;

use crate::context::Context;
use crate::failure::Failure;
use crate::screen::Screen;

/// The command of the session that this program was started in, if any. Says so where the cookie means
/// nothing.
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

/// Says that the cookie names a session that does not run.
pub fn warn_of_cookie(id: &SessionId, screen: &Screen) {
    screen.warn(&format!(
        "{COOKIE} names session {id}, which does not run in this store; the new session has no owner"
    ));
}
