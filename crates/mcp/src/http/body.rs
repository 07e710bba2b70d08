//! Reads the bodies of requests within limits, before they reach the protocol.

use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Bytes, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::limits::{BODY_BYTES, BODY_TIME, OWN_BODY_BYTES, SHARED_BODY_BYTES, VALUE_BYTES, VALUES};

/// A request body, and the share of memory reserved for it.
pub(super) struct Read {
    pub(super) bytes: Bytes,
    pub(super) share: Option<Share>,
}

/// A share of the memory for large bodies.
pub(super) type Share = OwnedSemaphorePermit;

/// The memory that all connections share for large bodies.
#[derive(Clone)]
pub(super) struct Pool {
    bytes: Arc<Semaphore>,
}

impl Pool {
    pub(super) fn new() -> Pool {
        Pool { bytes: Arc::new(Semaphore::new(SHARED_BODY_BYTES)) }
    }

    /// Reads a body. Fails with the status to respond with.
    pub(super) async fn read(&self, mut body: Incoming) -> Result<Read, StatusCode> {
        let until = Instant::now() + BODY_TIME;
        let read = self.read_until(&mut body, until).await;
        if let Err(StatusCode::PAYLOAD_TOO_LARGE | StatusCode::SERVICE_UNAVAILABLE) = read {
            // A client that is still writing does not read, and would not see the response.
            discard(&mut body, until).await;
        }
        read
    }

    async fn read_until(&self, body: &mut Incoming, until: Instant) -> Result<Read, StatusCode> {
        use hyper::body::Body;
        let announced = body.size_hint().lower();
        if announced > BODY_BYTES as u64 && !sexton_mutant::is("no_body_limit") {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        let (mut bytes, mut values, mut share) = (Vec::new(), Values::default(), None);
        loop {
            let frame = timeout_at(until, body.frame()).await.map_err(|_| StatusCode::REQUEST_TIMEOUT)?;
            let Some(frame) = frame else { break };
            let Ok(data) = frame.map_err(|_| StatusCode::BAD_REQUEST)?.into_data() else { continue };
            if !sexton_mutant::is("no_body_limit") {
                values.scan(&data);
                let length = bytes.len() + data.len();
                if length > BODY_BYTES || values.count > VALUES {
                    return Err(StatusCode::PAYLOAD_TOO_LARGE);
                }
                self.account(length + values.count * VALUE_BYTES, &mut share)?;
            }
            bytes.extend_from_slice(&data);
        }
        Ok(Read { bytes: bytes.into(), share })
    }

    /// Reserves the shared memory that a body of `length` accounted bytes needs. It fails instead of waiting, because
    /// two partly read bodies could wait for each other.
    fn account(&self, length: usize, share: &mut Option<Share>) -> Result<(), StatusCode> {
        let has = share.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = length.saturating_sub(OWN_BODY_BYTES).saturating_sub(has);
        let Some(missing) = u32::try_from(missing).ok().filter(|missing| *missing > 0) else { return Ok(()) };
        let more = Arc::clone(&self.bytes).try_acquire_many_owned(missing);
        let more = more.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
        match share {
            Some(share) => share.merge(more),
            None => *share = Some(more),
        }
        Ok(())
    }
}

/// Reads a body to its end and discards it.
async fn discard(body: &mut Incoming, until: Instant) {
    while let Ok(Some(Ok(_))) = timeout_at(until, body.frame()).await {}
}

/// Counts the values of a JSON text, without parsing it.
#[derive(Default)]
struct Values {
    count: usize,
    in_string: bool,
    escaped: bool,
}

impl Values {
    fn scan(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match (self.in_string, byte) {
                (true, _) if self.escaped => self.escaped = false,
                (true, b'\\') => self.escaped = true,
                (_, b'"') => self.in_string = !self.in_string,
                (false, b',' | b':' | b'[' | b'{') => self.count += 1,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(parts: &[&str]) -> usize {
        let mut values = Values::default();
        parts.iter().for_each(|part| values.scan(part.as_bytes()));
        values.count
    }

    #[test]
    fn values_are_counted_outside_of_strings() {
        assert_eq!(count(&[r#"{"a":[1,2],"b":"x,y:[{"}"#]), 6);
        assert_eq!(count(&[r#"["a\"#, r#"",b",1]"#]), 2);
        assert_eq!(count(&[&"[".repeat(9)]), 9);
    }

    #[test]
    fn i9_large_bodies_share_a_limit_and_small_ones_do_not_count() {
        let pool = Pool::new();
        let mut large = None;
        pool.account(OWN_BODY_BYTES + 1000, &mut large).unwrap();
        pool.account(OWN_BODY_BYTES + SHARED_BODY_BYTES, &mut large).unwrap();
        assert_eq!(large.as_ref().unwrap().num_permits(), SHARED_BODY_BYTES);
        let mut small = None;
        assert_eq!(pool.account(OWN_BODY_BYTES, &mut small), Ok(()));
        assert_eq!(pool.account(OWN_BODY_BYTES + 1, &mut small), Err(StatusCode::SERVICE_UNAVAILABLE));
        drop(large);
        assert_eq!(pool.account(OWN_BODY_BYTES + 1, &mut small), Ok(()));
    }
}
