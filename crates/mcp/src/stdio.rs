//! The protocol on standard input and output: one message per line.
//!
//! An invalid message gets the JSON-RPC error response and the next line is read, so one bad line does not end the
//! connection. Messages before the first request are ignored.

use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::{StdioReader, StdioWriter, Transport, stdio_pipes};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Maximum length of a message in bytes.
pub(crate) const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// A transport that exchanges line-delimited messages over two streams.
pub(crate) struct Lines<R, W> {
    read: BufReader<R>,
    /// The part of the current line read so far. Kept when a read is cancelled, so that no bytes are lost.
    line: Vec<u8>,
    /// Whether the rest of an overlong line is being skipped.
    skipping: bool,
    /// Whether a request was read.
    request_seen: bool,
    write: Arc<Mutex<W>>,
    /// Cancelled when the client disconnects, so that its pending calls stop waiting.
    gone: CancellationToken,
}

/// Result of reading one line.
enum Read {
    Whole,
    TooLong,
    Ended,
}

impl Lines<StdioReader, StdioWriter> {
    /// Creates the transport on this process's standard input and output.
    pub(crate) fn of_this_process(gone: CancellationToken) -> Self {
        let (read, write) = stdio_pipes();
        Lines::new(read, write, gone)
    }
}

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    fn new(read: R, write: W, gone: CancellationToken) -> Self {
        let (line, write) = (Vec::new(), Arc::new(Mutex::new(write)));
        Lines { read: BufReader::new(read), line, skipping: false, request_seen: false, write, gone }
    }

    /// Reads until a line is complete. Cancel-safe: it can be dropped and called again.
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
            let reply = match self.read_line().await {
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
                            self.request_seen |= matches!(message, JsonRpcMessage::Request(_));
                            if self.request_seen {
                                return Some(message);
                            }
                            None
                        }
                        Err(reply) => reply,
                    }
                }
            };
            if let Some(reply) = reply {
                let (error, id) = *reply;
                // Sent from its own task: `receive` can be cancelled, which must not leave a partial line.
                tokio::spawn(self.send(JsonRpcMessage::error(error, id)));
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.write.lock().await.flush().await
    }
}

/// The error to send for an invalid line, and the id of the request if it could be read.
type ErrorReply = Box<(ErrorData, Option<RequestId>)>;

/// Parses the message on a line. Fails with the error to send, if any.
fn parse(line: &[u8]) -> Result<ClientJsonRpcMessage, Option<ErrorReply>> {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Err(None);
    }
    serde_json::from_slice(line).map_err(|_| match serde_json::from_slice::<Value>(line) {
        Err(error) => Some(Box::new((ErrorData::parse_error(format!("not JSON: {error}"), None), None))),
        // Notifications get no response.
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

    /// Returns the number of messages read from `bytes`, and the responses.
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
    fn invalid_line_gets_error_and_next_message_is_read() {
        let (messages, answers) = exchange(format!("not json\n[1]\n{{\"id\":7}}\n\n{PING}\n").as_bytes());
        assert_eq!(messages, 1);
        let codes: Vec<_> = answers.iter().map(|answer| answer["error"]["code"].as_i64().unwrap()).collect();
        assert_eq!(codes, [-32700, -32600, -32600]);
        assert_eq!(answers[2]["id"], 7);
    }

    #[test]
    fn overlong_line_is_rejected_and_skipped() {
        let mut bytes = vec![b'x'; 2 * MAX_MESSAGE + 5];
        bytes.extend(format!("\n{PING}\n").bytes());
        let (messages, answers) = exchange(&bytes);
        assert_eq!((messages, answers.len()), (1, 1));
        assert_eq!(answers[0]["error"]["code"], -32600);
    }

    #[test]
    fn messages_before_first_request_are_ignored() {
        let early = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(exchange(format!("{early}\n{PING}\n{early}\n").as_bytes()).0, 2);
    }

    #[test]
    fn partial_last_line_is_ignored() {
        assert_eq!(exchange(&PING.as_bytes()[..20]).0, 0);
    }
}
