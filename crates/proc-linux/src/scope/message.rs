//! The part of the D-Bus wire format that a method call and its answer need.
//!
//! Messages are written in native byte order. Reads are bounded, and anything unexpected is an error.

use std::io::{self, Read};

const METHOD_CALL: u8 = 1;
const METHOD_RETURN: u8 = 2;
const ERROR: u8 = 3;
const SIGNAL: u8 = 4;

const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SIGNATURE: u8 = 8;

const BYTE_ORDER: u8 = if cfg!(target_endian = "little") { b'l' } else { b'B' };
const VERSION: u8 = 1;
const FIXED_HEADER: usize = 16;

/// More than any relevant message; the specification allows 128 MiB.
const MAX_MESSAGE: usize = 1 << 20;

/// Appends values in the wire format: each is aligned to its size, relative to the start of the message.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn align(&mut self, size: usize) {
        self.0.resize(self.0.len().next_multiple_of(size), 0);
    }

    fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.align(4);
        self.0.extend(value.to_ne_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.align(8);
        self.0.extend(value.to_ne_bytes());
    }

    pub(super) fn string(&mut self, text: &str) {
        self.u32(length(text.len()));
        self.0.extend(text.as_bytes());
        self.byte(0);
    }

    pub(super) fn signature(&mut self, text: &str) {
        self.byte(u8::try_from(text.len()).unwrap_or(u8::MAX));
        self.0.extend(text.as_bytes());
        self.byte(0);
    }

    /// Writes an array whose elements are aligned to `alignment`.
    pub(super) fn array(&mut self, alignment: usize, elements: impl FnOnce(&mut Writer)) {
        self.u32(0);
        let place = self.0.len() - size_of::<u32>();
        // The padding before the first element is not counted.
        self.align(alignment);
        let begin = self.0.len();
        elements(self);
        let size = length(self.0.len() - begin);
        self.0[place..place + size_of::<u32>()].copy_from_slice(&size.to_ne_bytes());
    }
}

/// Converts a length; here it is always that of a few short strings.
fn length(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

/// Addressee and signature of a method call.
pub(super) struct Call {
    pub(super) destination: &'static str,
    pub(super) path: &'static str,
    pub(super) interface: &'static str,
    pub(super) member: &'static str,
    pub(super) signature: &'static str,
}

/// Builds the message of a method call.
pub(super) fn method_call(serial: u32, call: &Call, body: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut written = Writer::default();
    body(&mut written);
    let mut message = Writer::default();
    message.0.extend([BYTE_ORDER, METHOD_CALL, 0, VERSION]);
    message.u32(length(written.0.len()));
    message.u32(serial);
    message.array(8, |fields| {
        let texts = [
            (PATH, "o", call.path),
            (DESTINATION, "s", call.destination),
            (INTERFACE, "s", call.interface),
            (MEMBER, "s", call.member),
        ];
        for (code, kind, text) in texts {
            fields.align(8);
            fields.byte(code);
            fields.signature(kind);
            fields.string(text);
        }
        fields.align(8);
        fields.byte(SIGNATURE);
        fields.signature("g");
        fields.signature(call.signature);
    });
    // The body starts at a multiple of eight, so its own alignment stays valid.
    message.align(8);
    message.0.extend(written.0);
    message.0
}

/// A received message, reduced to what matters.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// The call with this serial succeeded; `text` is the first value of the answer, if that is a string.
    Answer { serial: u32, text: Option<String> },
    /// The call with this serial failed.
    Refusal { serial: u32, why: String },
    /// A job ended, with its object path and its result.
    JobRemoved { job: String, result: String },
    /// Any other message.
    Other,
}

/// Reads one message.
pub(super) fn read(stream: &mut impl Read) -> io::Result<Received> {
    let mut fixed = [0; FIXED_HEADER];
    stream.read_exact(&mut fixed)?;
    let [order, kind, _, version, ..] = fixed;
    if order != BYTE_ORDER || version != VERSION {
        return Err(malformed("unexpected byte order or version"));
    }
    let number = |at: usize| usize::try_from(ne_u32(&fixed[at..at + 4])).unwrap_or(usize::MAX);
    let (body_size, fields_size) = (number(4), number(12));
    if body_size > MAX_MESSAGE || fields_size > MAX_MESSAGE {
        return Err(malformed("too large"));
    }
    let header_size = (FIXED_HEADER + fields_size).next_multiple_of(8);
    let mut message = fixed.to_vec();
    message.resize(header_size + body_size, 0);
    stream.read_exact(&mut message[FIXED_HEADER..])?;
    let fields = Fields::read(&message[..FIXED_HEADER + fields_size])?;
    let body = Reader { bytes: &message, at: header_size };
    fields.interpret(kind, body)
}

fn malformed(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the service manager sent an invalid message: {why}"))
}

fn ne_u32(bytes: &[u8]) -> u32 {
    bytes.try_into().map(u32::from_ne_bytes).unwrap_or_default()
}

/// The relevant header fields.
#[derive(Default)]
struct Fields {
    member: String,
    serial: u32,
    signature: String,
}

impl Fields {
    fn read(header: &[u8]) -> io::Result<Fields> {
        let mut reader = Reader { bytes: header, at: FIXED_HEADER };
        let mut fields = Fields::default();
        while reader.at < header.len() {
            reader.align(8)?;
            let code = reader.byte()?;
            let kind = reader.signature()?;
            match (code, kind.as_str()) {
                (MEMBER, "s") => fields.member = reader.string()?,
                (REPLY_SERIAL, "u") => fields.serial = reader.u32()?,
                (SIGNATURE, "g") => fields.signature = reader.signature()?,
                (_, "s" | "o") => _ = reader.string()?,
                (_, "g") => _ = reader.signature()?,
                (_, "u") => _ = reader.u32()?,
                _ => return Err(malformed("header field of an unknown type")),
            }
        }
        Ok(fields)
    }

    fn interpret(self, kind: u8, mut body: Reader<'_>) -> io::Result<Received> {
        let serial = self.serial;
        let begins_with_text = self.signature.starts_with(['s', 'o']);
        match kind {
            METHOD_RETURN => {
                let text = begins_with_text.then(|| body.string()).transpose()?;
                Ok(Received::Answer { serial, text })
            }
            ERROR => {
                let why = begins_with_text.then(|| body.string()).transpose()?;
                Ok(Received::Refusal { serial, why: why.unwrap_or_else(|| "no reason given".to_owned()) })
            }
            SIGNAL if self.member == "JobRemoved" && self.signature == "uoss" => {
                body.u32()?;
                let job = body.string()?;
                body.string()?;
                Ok(Received::JobRemoved { job, result: body.string()? })
            }
            _ => Ok(Received::Other),
        }
    }
}

/// Reads values from a message.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, size: usize) -> io::Result<&'a [u8]> {
        let end = self.at.checked_add(size).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or_else(|| malformed("truncated"))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn align(&mut self, size: usize) -> io::Result<()> {
        self.take(self.at.next_multiple_of(size) - self.at).map(|_| ())
    }

    fn byte(&mut self) -> io::Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn u32(&mut self) -> io::Result<u32> {
        self.align(4)?;
        Ok(ne_u32(self.take(4)?))
    }

    fn string(&mut self) -> io::Result<String> {
        let size = usize::try_from(self.u32()?).map_err(io::Error::other)?;
        self.text(size)
    }

    fn signature(&mut self) -> io::Result<String> {
        let size = usize::from(self.byte()?);
        self.text(size)
    }

    fn text(&mut self, size: usize) -> io::Result<String> {
        let text = std::str::from_utf8(self.take(size)?).map_err(|_| malformed("a string is not UTF-8"))?;
        match self.byte()? {
            0 => Ok(text.to_owned()),
            _ => Err(malformed("a string does not end with NUL")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Call = Call {
        destination: "org.freedesktop.systemd1",
        path: "/org/freedesktop/systemd1",
        interface: "org.freedesktop.systemd1.Manager",
        member: "GetUnit",
        signature: "s",
    };

    /// Builds an answer like the manager's, with this message type and these fields.
    fn answer(kind: u8, fields: impl FnOnce(&mut Writer), body: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut written = Writer::default();
        body(&mut written);
        let mut message = Writer::default();
        message.0.extend([BYTE_ORDER, kind, 0, VERSION]);
        message.u32(length(written.0.len()));
        message.u32(7);
        message.array(8, fields);
        message.align(8);
        message.0.extend(written.0);
        message.0
    }

    fn field(fields: &mut Writer, code: u8, kind: &str) {
        fields.align(8);
        fields.byte(code);
        fields.signature(kind);
    }

    fn job_removed() -> Vec<u8> {
        answer(
            SIGNAL,
            |fields| {
                field(fields, MEMBER, "s");
                fields.string("JobRemoved");
                field(fields, SIGNATURE, "g");
                fields.signature("uoss");
            },
            |body| {
                body.u32(12);
                ["/job/12", "sexton-a.scope", "done"].iter().for_each(|text| body.string(text));
            },
        )
    }

    #[test]
    fn method_call_follows_the_specification() {
        let message = method_call(3, &CALL, |body| body.string("a.scope"));
        assert_eq!(message[..4], [BYTE_ORDER, METHOD_CALL, 0, 1]);
        assert_eq!(ne_u32(&message[4..8]), 12, "the body is a length, seven characters and a NUL");
        assert_eq!(ne_u32(&message[8..12]), 3);
        let fields_size = usize::try_from(ne_u32(&message[12..16])).unwrap();
        let header_size = (FIXED_HEADER + fields_size).next_multiple_of(8);
        assert_eq!(message.len(), header_size + 12);
        assert_eq!(message[header_size + 4..], *b"a.scope\0");
        let fields = Fields::read(&message[..FIXED_HEADER + fields_size]).unwrap();
        assert_eq!((fields.member.as_str(), fields.signature.as_str()), ("GetUnit", "s"));
    }

    #[test]
    fn answers_errors_and_ended_jobs_are_distinguished() {
        let reply = |kind, signature: &'static str, text: &'static str| {
            let fields = |fields: &mut Writer| {
                field(fields, REPLY_SERIAL, "u");
                fields.u32(3);
                field(fields, SIGNATURE, "g");
                fields.signature(signature);
            };
            read(&mut answer(kind, fields, |body| body.string(text)).as_slice()).unwrap()
        };
        let text = Some("/job/12".to_owned());
        assert_eq!(reply(METHOD_RETURN, "o", "/job/12"), Received::Answer { serial: 3, text });
        let refusal = Received::Refusal { serial: 3, why: "exists".to_owned() };
        assert_eq!(reply(ERROR, "s", "exists"), refusal);
        let removed = Received::JobRemoved { job: "/job/12".to_owned(), result: "done".to_owned() };
        assert_eq!(read(&mut job_removed().as_slice()).unwrap(), removed);
    }

    #[test]
    fn truncated_or_damaged_message_never_panics() {
        let whole = job_removed();
        for end in 0..whole.len() {
            assert!(read(&mut &whole[..end]).is_err(), "cut off at {end}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                let _ = read(&mut damaged.as_slice());
            }
        }
    }

    #[test]
    fn i9_huge_message_is_refused_before_allocation() {
        let mut message = job_removed();
        message[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(read(&mut message.as_slice()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
