//! Credentials are in no message: locations that hold some are refused, and what a store says is searched for those of the
//! storage options. (A server that refuses a signature answers with the request, token and all.)

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use object_store::Error as StoreError;

/// What a secret is replaced by.
const MASK: &str = "***";
/// Shorter values would be found in ordinary words.
const SHORTEST: usize = 6;
/// How many are remembered: tokens change while a process lives.
const MOST: usize = 64;
/// Parts of the names of options whose values are secrets, and of those that only lead to one.
const SECRET: [&str; 7] = ["secret", "token", "password", "sas", "account_key", "customer_key", "storage_key"];
const NO_SECRET: [&str; 3] = ["_file", "_path", "_url"];

/// The secrets that stores were opened with.
static KNOWN: Mutex<Vec<String>> = Mutex::new(Vec::new());

pub(super) fn hold_lock() -> impl std::any::Any {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Remembers the secrets among options.
pub(super) fn remember(options: &[(String, String)]) {
    let is_secret = |key: &str| SECRET.iter().any(|s| key.contains(s)) && !NO_SECRET.iter().any(|s| key.contains(s));
    let password = |value: &str| Some(url::Url::parse(value).ok()?.password()?.to_owned());
    let secrets = options.iter().filter_map(|(key, value)| match is_secret(key) {
        true => Some(value.clone()),
        false => password(value),
    });
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    for secret in secrets.filter(|secret| secret.len() >= SHORTEST) {
        known.retain(|other| *other != secret);
        known.push(secret);
    }
    let surplus = known.len().saturating_sub(MOST);
    known.drain(..surplus);
}

/// The text without secrets; `None` if it has none.
fn masked_text(text: &str) -> Option<String> {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found = known.iter().filter(|secret| text.contains(secret.as_str())).peekable();
    found.peek()?;
    Some(found.fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), MASK)))
}

/// An error of a store without secrets, of the same kind.
pub(super) fn masked(error: StoreError) -> StoreError {
    let Some(text) = masked_text(&error.to_string()) else { return error };
    let source = text.into();
    match error {
        StoreError::NotFound { path, .. } => StoreError::NotFound { path, source },
        StoreError::AlreadyExists { path, .. } => StoreError::AlreadyExists { path, source },
        StoreError::Precondition { path, .. } => StoreError::Precondition { path, source },
        StoreError::NotModified { path, .. } => StoreError::NotModified { path, source },
        StoreError::PermissionDenied { path, .. } => StoreError::PermissionDenied { path, source },
        StoreError::Unauthenticated { path, .. } => StoreError::Unauthenticated { path, source },
        StoreError::Generic { store, .. } => StoreError::Generic { store, source },
        _ => StoreError::Generic { store: "object", source },
    }
}

/// A location or an endpoint as it may be shown: without the user before an `@`, and without a query.
pub(super) fn masked_uri(uri: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = uri.split_once("://") else { return uri.into() };
    let (before_query, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    // A secret may hold slashes; a container of Azure stands before an `@` too, but nothing with a colon.
    let user = before_query.rfind('@').map_or("", |at| before_query.get(..at).unwrap_or_default());
    let shown = if user.contains(':') || (!user.is_empty() && !is_azure(scheme)) { user.len() } else { 0 };
    if shown == 0 && query.is_empty() {
        return uri.into();
    }
    let mask = if shown > 0 { MASK } else { "" };
    let query = if query.is_empty() { "".to_owned() } else { format!("?{MASK}") };
    format!("{scheme}://{mask}{}{query}", before_query.get(shown..).unwrap_or_default()).into()
}

/// Whether locations of this scheme have a container where others have a user.
pub(super) fn is_azure(scheme: &str) -> bool {
    matches!(scheme, "az" | "abfs" | "abfss" | "adl" | "azure" | "wasb" | "wasbs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_shown_without_secrets() {
        for (uri, shown) in [
            ("s3://bucket/a/b", "s3://bucket/a/b"),
            ("/local/a:b@c?d", "/local/a:b@c?d"),
            ("s3://key:se/cret@bucket/t", "s3://***@bucket/t"),
            ("s3://key@bucket/t", "s3://***@bucket/t"),
            ("abfss://container@account.dfs.core.windows.net/t", "abfss://container@account.dfs.core.windows.net/t"),
            ("abfss://c:secret@account/t", "abfss://***@account/t"),
            ("https://user:pass@host/t?sig=abc", "https://***@host/t?***"),
            ("az://c/t?sv=1&sig=abc#x", "az://c/t?***"),
        ] {
            assert_eq!(masked_uri(uri), shown);
        }
    }

    #[test]
    fn errors_lose_secrets_and_keep_their_kind() {
        let option = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        remember(&[
            option("aws_session_token", "tok/en+4711"),
            option("aws_access_key_id", "AKIA4712"),
            option("azure_federated_token_file", "/var/token-4713"),
            option("proxy_url", "http://me:pass4714@proxy:3128"),
            option("aws_secret_access_key", "test"),
        ]);
        let error = |source: &str| StoreError::Precondition { path: "p".into(), source: source.to_owned().into() };
        let shown = masked(error("x-token:tok/en+4711 of AKIA4712 by pass4714, test, /var/token-4713"));
        assert!(matches!(shown, StoreError::Precondition { .. }));
        assert!(shown.to_string().contains("x-token:*** of AKIA4712 by ***, test, /var/token-4713"), "{shown}");
        assert!(masked(error("nothing")).to_string().contains("nothing"));
    }
}
