//! The protocol on standard input and output: one message is one line.
//!
//! What is no message is answered as JSON-RPC asks, and the next line is read: a client that wrote nonsense
//! once can go on. Nothing is answered before a client has asked for something.

use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::{StdioReader, StdioWriter, Transport, stdio_pipes};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// The longest message.
pub(crate) const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// Messages on two streams.
pub(crate) struct Lines<R, W> {
    read: BufReader<R>,
    /// What was read of a line so far. It stays when a read is given up: nothing of it is lost.
    line: Vec<u8>,
    /// Whether the rest of a line that was too long is being skipped.
    skipping: bool,
    /// Whether a request was read.
    begun: bool,
    write: Arc<Mutex<W>>,
    /// Cancelled when the client is gone, so that nobody goes on waiting for its sake.
    gone: CancellationToken,
}

/// What one line was.
enum Read {
    Whole,
    TooLong,
    Ended,
}

impl Lines<StdioReader, StdioWriter> {
    /// The protocol on this process's own streams.
    pub(crate) fn of_this_process(gone: CancellationToken) -> Self {
        let (read, write) = stdio_pipes();
        Lines::new(read, write, gone)
    }
}

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    fn new(read: R, write: W, gone: CancellationToken) -> Self {
        let (line, write) = (Vec::new(), Arc::new(Mutex::new(write)));
        Lines { read: BufReader::new(read), line, skipping: false, begun: false, write, gone }
    }

    /// Reads on until a line is whole. May be given up at any moment and called again.
    async fn read_line(&mut self) -> Read {
        loop {
            let Ok(buffer) = self.read.fill_buf().await else { return Read::Ended };
            if buffer.is_empty() {
                return Read::Ended;
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(buffer.len(), |end| end + 1);
            if !self.skipping {
                self.line.extend_from_slice(&buffer[..end.unwrap_or(taken)]);
            }
            self.read.consume(taken);
            let was_skipping = self.skipping;
            if self.line.len() > MAX_MESSAGE {
                self.line = Vec::new();
                self.skipping = end.is_none();
                return Read::TooLong;
            }
            if end.is_some() {
                self.skipping = false;
                if !was_skipping {
                    return Read::Whole;
                }
            }
        }
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let write = Arc::clone(&self.write);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut write = write.lock().await;
            write.write_all(&line).await?;
            write.flush().await
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let complaint = match self.read_line().await {
                Read::Ended => {
                    self.gone.cancel();
                    return None;
                }
                Read::TooLong => {
                    let error = format!("a message has at most {MAX_MESSAGE} bytes");
                    Some(Box::new((ErrorData::invalid_request(error, None), None)))
                }
                Read::Whole => {
                    let line = std::mem::take(&mut self.line);
                    match parse(&line) {
                        Ok(message) => {
                            self.begun |= matches!(message, JsonRpcMessage::Request(_));
                            if self.begun {
                                return Some(message);
                            }
                            None
                        }
                        Err(complaint) => complaint,
                    }
                }
            };
            if let Some(complaint) = complaint {
                let (error, id) = *complaint;
                // A task of its own: reading may be given up at any moment, and half a line must not be sent.
                tokio::spawn(self.send(JsonRpcMessage::error(error, id)));
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.write.lock().await.flush().await
    }
}

/// What is wrong with a line, and the request that it was, as far as that can be told.
type Complaint = Box<(ErrorData, Option<RequestId>)>;

/// The message on a line; else what to answer, if anything.
fn parse(line: &[u8]) -> Result<ClientJsonRpcMessage, Option<Complaint>> {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Err(None);
    }
    serde_json::from_slice(line).map_err(|_| match serde_json::from_slice::<Value>(line) {
        Err(error) => Some(Box::new((ErrorData::parse_error(format!("not JSON: {error}"), None), None))),
        // Nobody waits for an answer to a notification.
        Ok(value) if value.get("method").is_some() && value.get("id").is_none() => None,
        Ok(value) => {
            let id = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
            Some(Box::new((ErrorData::invalid_request("not a JSON-RPC 2.0 message", None), id)))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of these bytes: how many messages, and what is answered.
    fn exchange(bytes: &[u8]) -> (usize, Vec<Value>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let answers = Vec::new();
            let mut lines = Lines::new(bytes, answers, CancellationToken::new());
            let mut messages = 0;
            while lines.receive().await.is_some() {
                messages += 1;
            }
            tokio::task::yield_now().await;
            let answers = lines.write.lock().await.clone();
            let answers = answers.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            (messages, answers.map(|line| serde_json::from_slice(line).unwrap()).collect())
        })
    }

    const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

    #[test]
    fn nonsense_is_answered_and_the_next_message_is_read() {
        let (messages, answers) = exchange(format!("not json\n[1]\n{{\"id\":7}}\n\n{PING}\n").as_bytes());
        assert_eq!(messages, 1);
        let codes: Vec<_> = answers.iter().map(|answer| answer["error"]["code"].as_i64().unwrap()).collect();
        assert_eq!(codes, [-32700, -32600, -32600]);
        assert_eq!(answers[2]["id"], 7);
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_and_skipped_to_its_end() {
        let mut bytes = vec![b'x'; 2 * MAX_MESSAGE + 5];
        bytes.extend(format!("\n{PING}\n").bytes());
        let (messages, answers) = exchange(&bytes);
        assert_eq!((messages, answers.len()), (1, 1));
        assert_eq!(answers[0]["error"]["code"], -32600);
    }

    #[test]
    fn what_comes_before_the_first_request_is_no_reason_to_go() {
        let early = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(exchange(format!("{early}\n{PING}\n{early}\n").as_bytes()).0, 2);
    }

    #[test]
    fn half_a_line_at_the_end_is_nothing() {
        assert_eq!(exchange(&PING.as_bytes()[..20]).0, 0);
    }
}
