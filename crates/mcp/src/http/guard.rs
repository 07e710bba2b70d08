//! Who may ask at all. A page in somebody's browser can send requests to this machine, and a name that it
//! controls can be made to mean this machine: so the host and the origin of every request are looked at,
//! whether there is a token or not.

use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{StatusCode, Uri};
use sexton_core::config::Secret;
use sha2::{Digest, Sha256};

/// A request that is not looked at any further.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) why: &'static str,
}

const fn refused(status: StatusCode, why: &'static str) -> Refused {
    Refused { status, why }
}

const FOREIGN_HOST: Refused =
    refused(StatusCode::FORBIDDEN, "this is not a name of this server (see `mcp.hosts`)\n");
const FOREIGN_ORIGIN: Refused =
    refused(StatusCode::FORBIDDEN, "pages of other origins may not call this server\n");
const NO_TOKEN: Refused = refused(StatusCode::UNAUTHORIZED, "a bearer token is needed\n");

/// What every request has to pass.
pub(super) struct Guard {
    loopback_only: bool,
    hosts: Vec<String>,
    token: Option<[u8; 32]>,
}

impl Guard {
    /// The guard of a server that listens on `address`.
    pub(super) fn new(address: IpAddr, token: Option<&Secret>, hosts: Vec<String>) -> Guard {
        Guard {
            loopback_only: address.is_loopback(),
            hosts: hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect(),
            token: token.map(|token| digest(token.reveal().as_bytes())),
        }
    }

    /// Refuses what nobody may ask.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refused> {
        let host = only(headers, &HOST).ok().flatten().and_then(|host| host.parse::<Authority>().ok());
        let host = host.ok_or(FOREIGN_HOST)?;
        let elsewhere = |authority: &Authority| !self.is_ours(authority.host());
        if elsewhere(&host) || uri.authority().is_some_and(elsewhere) {
            return Err(FOREIGN_HOST);
        }
        if let Some(origin) = only(headers, &ORIGIN).map_err(|()| FOREIGN_ORIGIN)?
            && !is_same_origin(origin, &host)
        {
            return Err(FOREIGN_ORIGIN);
        }
        match &self.token {
            None => Ok(()),
            Some(token) => {
                let borne = only(headers, &AUTHORIZATION).ok().flatten().and_then(bearer).ok_or(NO_TOKEN)?;
                if is_equal(&digest(borne.as_bytes()), token) { Ok(()) } else { Err(NO_TOKEN) }
            }
        }
    }

    /// Whether this is a name of this server. An address cannot be made to mean another one; a name can.
    fn is_ours(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&host);
        match bare.parse::<IpAddr>() {
            Ok(address) if address.is_loopback() => true,
            Ok(_) if !self.loopback_only => true,
            _ => bare == "localhost" || self.hosts.iter().any(|known| known == bare),
        }
    }
}

/// The one value of a header; an error where there are several, or one that is no text.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(drop),
        (Some(_), Some(_)) => Err(()),
    }
}

/// Whether a page of `origin` and this server are the same to a browser.
fn is_same_origin(origin: &str, host: &Authority) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(|authority| authority.eq_ignore_ascii_case(host.as_str()))
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Compares without telling by the time it takes how much was right. What is compared are digests, so that
/// not even the length of the token shows.
fn is_equal(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use sexton_core::config::{OrOff, SettingValue};

    use super::*;

    const TOKEN: &str = "0123456789abcdef-token";

    fn guard(address: &str, token: bool) -> Guard {
        let secret = OrOff::<Secret>::from_text(TOKEN).unwrap().0.unwrap();
        Guard::new(address.parse().unwrap(), token.then_some(&secret), vec!["Build.example".to_owned()])
    }

    fn ask(guard: &Guard, headers: &[(&str, &str)]) -> Result<(), StatusCode> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        guard.check(&Uri::from_static("/mcp"), &map).map_err(|refused| refused.status)
    }

    #[test]
    fn only_names_of_this_machine_are_hosts() {
        let local = guard("127.0.0.1", false);
        for host in ["localhost", "localhost:80", "127.0.0.1:8", "[::1]:8", "LOCALHOST", "build.example:9"] {
            assert_eq!(ask(&local, &[("host", host)]), Ok(()), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "10.0.0.1", "", "127.0.0.1.evil.example"] {
            assert_eq!(ask(&local, &[("host", host)]), Err(StatusCode::FORBIDDEN), "{host}");
        }
        assert_eq!(ask(&local, &[]), Err(StatusCode::FORBIDDEN));
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(ask(&local, &two), Err(StatusCode::FORBIDDEN));
        assert_eq!(ask(&guard("0.0.0.0", false), &[("host", "10.0.0.1:80")]), Ok(()));
        assert!(ask(&guard("0.0.0.0", false), &[("host", "evil.example")]).is_err());
    }

    #[test]
    fn a_page_may_call_only_the_server_that_it_came_from() {
        let local = guard("127.0.0.1", false);
        let ask = |origin| ask(&local, &[("host", "localhost:8"), ("origin", origin)]);
        assert_eq!(ask("http://localhost:8"), Ok(()));
        for origin in ["http://evil.example", "http://localhost:9", "http://localhost", "null", "file://", ""]
        {
            assert_eq!(ask(origin), Err(StatusCode::FORBIDDEN), "{origin}");
        }
    }

    #[test]
    fn a_token_is_right_whole_or_not_at_all() {
        let guarded = guard("127.0.0.1", true);
        let ask = |value: &str| ask(&guarded, &[("host", "localhost"), ("authorization", value)]);
        assert_eq!(ask(&format!("Bearer {TOKEN}")), Ok(()));
        assert_eq!(ask(&format!("bearer {TOKEN}")), Ok(()));
        for value in [TOKEN, "Bearer", "Bearer ", "Bearer 0123456789abcdef", "Basic 0123456789abcdef-token"] {
            assert_eq!(ask(value), Err(StatusCode::UNAUTHORIZED), "{value}");
        }
        assert_eq!(ask(&format!("Bearer {TOKEN}x")), Err(StatusCode::UNAUTHORIZED));
    }

    #[test]
    fn a_right_token_does_not_excuse_a_foreign_host() {
        let guarded = guard("127.0.0.1", true);
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("host", "evil.example"), ("authorization", bearer.as_str())];
        assert_eq!(ask(&guarded, &headers), Err(StatusCode::FORBIDDEN));
    }
}
