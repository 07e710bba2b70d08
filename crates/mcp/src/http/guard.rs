//! Decides which requests are processed at all. Every user of this host can connect to its loopback address, so every
//! request over TCP must carry a token. A page in a browser can send requests to this host, also by a name that it
//! controls (DNS rebinding), so the host and origin of every request are checked too.

use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{StatusCode, Uri};
use sexton_core::config::Secret;
use sha2::{Digest, Sha256};

/// Why a request is rejected.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) why: &'static str,
}

const fn refused(status: StatusCode, why: &'static str) -> Refused {
    Refused { status, why }
}

const FOREIGN_HOST: Refused =
    refused(StatusCode::FORBIDDEN, "the host is not a name of this server (see `mcp.hosts`)\n");
const FOREIGN_ORIGIN: Refused =
    refused(StatusCode::FORBIDDEN, "requests from other origins are not allowed\n");
const NO_TOKEN: Refused = refused(StatusCode::UNAUTHORIZED, "");

/// The checks that every request must pass.
pub(super) struct Guard {
    loopback_only: bool,
    hosts: Vec<String>,
    /// Digest of the token. `None` only if the kernel reports the peer's credentials.
    token: Option<[u8; 32]>,
}

impl Guard {
    /// Creates the guard of a server that listens on `address`.
    pub(super) fn of_address(address: IpAddr, token: &Secret, hosts: Vec<String>) -> Guard {
        let token = Some(digest(token.reveal().as_bytes()));
        Guard { loopback_only: address.is_loopback(), hosts: lowercase(hosts), token }
    }

    /// Creates the guard of a server on a Unix socket, whose clients run as the same user.
    pub(super) fn of_socket(hosts: Vec<String>) -> Guard {
        Guard { loopback_only: true, hosts: lowercase(hosts), token: None }
    }

    /// Fails unless host, origin and token of the request are valid.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refused> {
        let host = only(headers, &HOST).ok().flatten().and_then(|host| host.parse::<Authority>().ok());
        let host = host.ok_or(FOREIGN_HOST)?;
        let is_foreign = |authority: &Authority| !self.is_ours(authority.host());
        if is_foreign(&host) || uri.authority().is_some_and(is_foreign) {
            return Err(FOREIGN_HOST);
        }
        if let Some(origin) = only(headers, &ORIGIN).map_err(|()| FOREIGN_ORIGIN)?
            && !is_same_origin(origin, &host)
        {
            return Err(FOREIGN_ORIGIN);
        }
        match &self.token {
            None => Ok(()),
            Some(_) if sexton_mutant::is("no_token") => Ok(()),
            Some(token) => {
                let presented =
                    only(headers, &AUTHORIZATION).ok().flatten().and_then(bearer).ok_or(NO_TOKEN)?;
                if is_equal(&digest(presented.as_bytes()), token) { Ok(()) } else { Err(NO_TOKEN) }
            }
        }
    }

    /// Returns whether `host` names this server. Addresses are accepted because DNS rebinding needs a name.
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

/// Returns the only value of a header. Fails if there are several, or if it is not text.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(drop),
        (Some(_), Some(_)) => Err(()),
    }
}

/// Returns whether `origin` is this server's own origin.
fn is_same_origin(origin: &str, host: &Authority) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(|authority| authority.eq_ignore_ascii_case(host.as_str()))
}

fn lowercase(hosts: Vec<String>) -> Vec<String> {
    hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect()
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Compares in constant time. It compares digests, so that timing does not reveal the token's length either.
fn is_equal(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.iter().zip(other).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use sexton_core::config::{OrOff, SettingValue};

    use super::*;

    const TOKEN: &str = "0123456789abcdef-token";

    /// Creates a guard that requires a token if `token` is set.
    fn guard(address: &str, token: bool) -> Guard {
        let secret = OrOff::<Secret>::from_text(TOKEN).unwrap().0.unwrap();
        let guard = Guard::of_address(address.parse().unwrap(), &secret, vec!["Build.example".to_owned()]);
        if token { guard } else { Guard { token: None, ..guard } }
    }

    fn ask(guard: &Guard, headers: &[(&str, &str)]) -> Result<(), StatusCode> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        guard.check(&Uri::from_static("/mcp"), &map).map_err(|refused| refused.status)
    }

    #[test]
    fn only_names_of_this_server_are_valid_hosts() {
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
    fn only_own_origin_is_allowed() {
        let local = guard("127.0.0.1", false);
        let ask = |origin| ask(&local, &[("host", "localhost:8"), ("origin", origin)]);
        assert_eq!(ask("http://localhost:8"), Ok(()));
        for origin in ["http://evil.example", "http://localhost:9", "http://localhost", "null", "file://", ""]
        {
            assert_eq!(ask(origin), Err(StatusCode::FORBIDDEN), "{origin}");
        }
    }

    #[test]
    fn i11_token_must_match_completely() {
        let guarded = guard("127.0.0.1", true);
        assert_eq!(super::tests::ask(&guarded, &[("host", "localhost")]), Err(StatusCode::UNAUTHORIZED));
        let ask = |value: &str| ask(&guarded, &[("host", "localhost"), ("authorization", value)]);
        assert_eq!(ask(&format!("Bearer {TOKEN}")), Ok(()));
        assert_eq!(ask(&format!("bearer {TOKEN}")), Ok(()));
        for value in [TOKEN, "Bearer", "Bearer ", "Bearer 0123456789abcdef", "Basic 0123456789abcdef-token"] {
            assert_eq!(ask(value), Err(StatusCode::UNAUTHORIZED), "{value}");
        }
        assert_eq!(ask(&format!("Bearer {TOKEN}x")), Err(StatusCode::UNAUTHORIZED));
    }

    #[test]
    fn foreign_host_is_rejected_with_valid_token() {
        let guarded = guard("127.0.0.1", true);
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("host", "evil.example"), ("authorization", bearer.as_str())];
        assert_eq!(ask(&guarded, &headers), Err(StatusCode::FORBIDDEN));
    }
}
