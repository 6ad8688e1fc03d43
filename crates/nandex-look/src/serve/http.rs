//! The part of HTTP/1.1 that a page and its calls need: one small, complete request per connection. Anything
//! else is refused.

use std::io::{self, Read, Write};

/// Most bytes of a request's head.
pub(super) const HEAD_MAX: usize = 8 << 10;

/// Most bytes of a request's body.
pub(super) const BODY_MAX: usize = 64 << 10;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    /// The path without the query.
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    /// The headers; names are in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// The value of a header; `None` if it is absent or occurs twice.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|header| header.0 == name);
        let first = found.next()?;
        found.next().is_none().then_some(first.1.as_str())
    }

    pub(super) fn has_twice(&self, name: &str) -> bool {
        self.headers.iter().filter(|header| header.0 == name).count() > 1
    }

    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|pair| pair.0 == name).map(|pair| pair.1.as_str())
    }
}

/// The status and reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) status: u16,
    pub(super) why: &'static str,
}

pub(super) const fn refused(status: u16, why: &'static str) -> Refused {
    Refused { status, why }
}

/// Reads a request; `None` if the client sent nothing.
pub(super) fn read(stream: &mut impl Read) -> Result<Option<Request>, Refused> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 2048];
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if bytes.len() > HEAD_MAX {
            return Err(refused(431, "the head of the request is too long"));
        }
        match stream.read(&mut chunk) {
            Ok(0) if bytes.is_empty() => return Ok(None),
            Ok(0) => return Err(refused(400, "the request ends in its head")),
            Ok(n) => bytes.extend_from_slice(&chunk[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) if bytes.is_empty() => return Ok(None),
            Err(_) => return Err(refused(408, "the request did not come in time")),
        }
    };
    if head > HEAD_MAX {
        return Err(refused(431, "the head of the request is too long"));
    }
    let mut request = parse(&bytes[..head])?;
    let length = body_length(&request)?;
    let mut body = bytes.split_off(head + 4);
    while body.len() < length {
        match stream.read(&mut chunk) {
            Ok(0) => return Err(refused(400, "the request ends in its body")),
            Ok(n) => body.extend_from_slice(&chunk[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(refused(408, "the request did not come in time")),
        }
    }
    body.truncate(length);
    request.body = body;
    Ok(Some(request))
}

fn body_length(request: &Request) -> Result<usize, Refused> {
    if request.headers.iter().any(|header| header.0 == "transfer-encoding") {
        return Err(refused(501, "bodies of unknown length are not read"));
    }
    if request.has_twice("content-length") {
        return Err(refused(400, "two lengths are given"));
    }
    let Some(text) = request.header("content-length") else { return Ok(0) };
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(refused(400, "the length is no number"));
    }
    let length: usize = text.parse().map_err(|_| refused(413, "the body is too long"))?;
    if length > BODY_MAX { Err(refused(413, "the body is too long")) } else { Ok(length) }
}

fn parse(head: &[u8]) -> Result<Request, Refused> {
    let bad = || refused(400, "this is no HTTP request");
    let text = std::str::from_utf8(head).map_err(|_| bad())?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or("").split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(bad());
    };
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if !version.starts_with("HTTP/1.") || !is_word(method) || !is_word(target) || !target.starts_with('/') {
        return Err(bad());
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let query = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(bad)?;
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
            return Err(bad());
        }
        headers.push((name.to_ascii_lowercase(), value.trim().to_string()));
    }
    Ok(Request {
        method: method.into(),
        path: path.into(),
        query: query.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        headers,
        body: Vec::new(),
    })
}

#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) body: Vec<u8>,
    /// The nonce with which the page's own script and style run.
    pub(super) nonce: Option<String>,
}

impl Answer {
    pub(super) fn json(status: u16, value: &serde_json::Value) -> Answer {
        Answer { status, kind: "application/json", body: value.to_string().into_bytes(), nonce: None }
    }

    pub(super) fn text(status: u16, text: &str) -> Answer {
        Answer { status, kind: "text/plain; charset=utf-8", body: text.as_bytes().to_vec(), nonce: None }
    }

    /// Writes the answer, after which the connection is closed.
    pub(super) fn write(&self, stream: &mut impl Write) -> io::Result<()> {
        let phrase = match self.status {
            200 => "OK",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            413 => "Content Too Large",
            415 => "Unsupported Media Type",
            421 => "Misdirected Request",
            422 => "Unprocessable Content",
            431 => "Request Header Fields Too Large",
            501 => "Not Implemented",
            503 => "Service Unavailable",
            _ => "Error",
        };
        let own = self.nonce.as_ref().map_or(String::new(), |nonce| {
            format!(
                "script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; connect-src 'self'; "
            )
        });
        let head = format!(
            "HTTP/1.1 {} {phrase}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\n\
             Content-Security-Policy: default-src 'none'; {own}base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'\r\n\r\n",
            self.status,
            self.kind,
            self.body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(&self.body)?;
        stream.flush()
    }
}
