//! Values of storage options, looked at before they reach the HTTP client, which panics for some that are wrong.

use url::Url;

use super::secrets::masked_uri;
use hoodoo_runtime::error::{Error, Result};

/// Parts of the names of options whose values never become a part of a request: files, certificates, and keys in JSON.
const NOT_SENT: [&str; 5] = ["_file", "_path", "certificate", "service_account", "application_credentials"];
/// Parts of the names of options that are URLs.
const URLS: [&str; 6] = ["endpoint", "base_url", "authority_host", "full_uri", "service_url", "proxy_url"];

/// Fails for options that no request can be made with.
pub(super) fn check<'o>(options: impl Iterator<Item = (&'o str, &'o str)>) -> Result<()> {
    for (key, value) in options {
        let is = |parts: &[&str]| parts.iter().any(|part| key.contains(part));
        if is(&NOT_SENT) {
            continue;
        }
        check_characters(key, value)?;
        if is(&URLS) && !is_flag(value) {
            check_url(key, value)?;
        }
    }
    Ok(())
}

/// Whether it is the value of an option that says whether there is an endpoint of some kind.
fn is_flag(value: &str) -> bool {
    matches!(
        value.to_ascii_lowercase().as_str(),
        "true" | "false" | "1" | "0" | "on" | "off" | "yes" | "no" | "y" | "n"
    )
}

fn check_characters(key: &str, value: &str) -> Result<()> {
    let Some((at, character)) = value.char_indices().find(|(_, c)| !matches!(c, ' '..='~')) else { return Ok(()) };
    // Neither the value nor a part of it: it may be a secret.
    let what = format!("storage option {key} has a character that no request can have");
    let error = Error::invalid_option(what).with("character", character.escape_unicode()).with("at", at);
    Err(error.remedy("Take it out: what is read from a file may end with a line break"))
}

fn check_url(key: &str, value: &str) -> Result<()> {
    let refuse = |why: &str| {
        let shown = masked_uri(value);
        Err(Error::invalid_option(format!("invalid value '{shown}' for storage option {key}: {why}"))
            .remedy("Give a URL such as https://host:port"))
    };
    let Ok(url) = Url::parse(value) else { return refuse("it is no URL") };
    let has_user = !url.username().is_empty() || url.password().is_some();
    match () {
        () if !matches!(url.scheme(), "http" | "https" | "socks5" | "socks5h" | "socks4") => refuse("it is no URL"),
        () if url.host_str().is_none_or(|host| host.is_empty()) => refuse("it has no host"),
        () if value.contains(' ') => refuse("it has a space"),
        () if has_user && !key.contains("proxy") => refuse("credentials are options of their own"),
        () => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn refused(key: &str, value: &str) -> String {
        check([(key, value)].into_iter()).unwrap_err().to_string()
    }

    #[test]
    fn what_no_request_can_have_is_refused_and_not_shown() {
        for bad in ["secret\n", "sec\0ret", "secr\u{e9}t", "secret\u{7f}", "secret\r\nHost: evil"] {
            let error = refused("aws_session_token", bad);
            assert!(error.contains("aws_session_token") && !error.contains("secret") && !error.contains("evil"));
        }
        for bad in ["", " ", "host", "http://", "ftp://host", "http://a b/", "https://user:pass@host"] {
            let error = refused("aws_endpoint", bad);
            assert!(error.contains("aws_endpoint") && !error.contains("pass"), "{error}");
        }
    }

    #[test]
    fn what_is_right_is_left_alone() {
        let right = [
            ("aws_endpoint", "http://127.0.0.1:9000"),
            ("aws_virtual_hosted_style_request", "true"),
            ("azure_use_fabric_endpoint", "false"),
            ("proxy_url", "http://user:pass@proxy:3128"),
            ("aws_web_identity_token_file", "/home/ren\u{e9}/token"),
            ("google_service_account_key", "{\n \"private_key\": \"a\\nb\"}"),
            ("proxy_ca_certificate", "-----BEGIN\nMII"),
            ("aws_secret_access_key", "a/b+c= d"),
        ];
        check(right.into_iter()).unwrap();
    }
}
