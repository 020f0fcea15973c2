//! What logs in to an agent.

use std::fmt;
use std::path::Path;

use snmp2::v3::{Auth, AuthProtocol, Cipher, Security};

use super::super::secrets::Secrets;

/// Keys of a file of credentials, and of the environment after `WATTRACE_SNMP_`.
const KEYS: [&str; 7] = [
    "community",
    "user",
    "auth_protocol",
    "auth_password",
    "privacy_protocol",
    "privacy_password",
    "context",
];

/// The community that agents let read unless they are told otherwise.
const PUBLIC: &str = "public";

/// Shortest password of a user (RFC 3414, section 11.2).
const SHORTEST_PASSWORD: usize = 8;

/// A community of v2c or a user of v3.
#[derive(Clone)]
pub struct SnmpLogin(pub(super) Identity);

#[derive(Clone)]
pub(super) enum Identity {
    Community(String),
    User(Box<Security>),
}

impl fmt::Debug for SnmpLogin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SnmpLogin(***)")
    }
}

impl Default for SnmpLogin {
    fn default() -> Self {
        Self(Identity::Community(PUBLIC.to_owned()))
    }
}

impl SnmpLogin {
    /// Reads lines `key = value`: `community` for v2c, or for v3 `user` and, as far as the agent asks for
    /// them, `auth_protocol`, `auth_password`, `privacy_protocol`, `privacy_password`, `context`.
    ///
    /// # Errors
    /// The file cannot be read or holds something else; the message shows no value.
    pub fn from_file(path: &Path) -> Result<Self, String> {
        let named = |problem| format!("\"{}\": {problem}", path.display());
        Self::from_secrets(&Secrets::from_file(path, &KEYS)?).map_err(named)
    }

    /// Takes the same keys from variables such as `WATTRACE_SNMP_COMMUNITY`; `None` where none is set.
    ///
    /// # Errors
    /// As [`SnmpLogin::from_file`].
    pub fn from_environment() -> Result<Option<Self>, String> {
        let secrets = Secrets::from_environment("WATTRACE_SNMP", &KEYS)?;
        (!secrets.is_empty()).then(|| Self::from_secrets(&secrets)).transpose()
    }

    /// Whom an agent has to let read, without secrets.
    pub(super) fn who(&self) -> &'static str {
        match &self.0 {
            Identity::Community(community) if community == PUBLIC => "community public",
            Identity::Community(_) => "the community of the credentials",
            Identity::User(_) => "the user of the credentials",
        }
    }

    fn from_secrets(secrets: &Secrets) -> Result<Self, String> {
        match (secrets.get("community"), secrets.get("user")) {
            (Some(_), Some(_)) => {
                Err("community and user are given; expected one, for v2c or for v3".to_owned())
            }
            (None, None) => {
                Err("community and user are missing; expected one, for v2c or for v3".to_owned())
            }
            (Some(community), None) => {
                if let Some(key) = KEYS[2..].iter().find(|key| secrets.get(key).is_some()) {
                    return Err(format!("{key} belongs to a user of v3, but a community is given"));
                }
                Ok(Self(Identity::Community(community.to_owned())))
            }
            (None, Some(user)) => {
                security(user, secrets).map(|it| Self(Identity::User(Box::new(it))))
            }
        }
    }
}

fn security(user: &str, secrets: &Secrets) -> Result<Security, String> {
    let protocols = [
        ("sha", AuthProtocol::Sha1),
        ("sha224", AuthProtocol::Sha224),
        ("sha256", AuthProtocol::Sha256),
        ("sha384", AuthProtocol::Sha384),
        ("sha512", AuthProtocol::Sha512),
        ("md5", AuthProtocol::Md5),
        ("sha1", AuthProtocol::Sha1),
    ];
    let ciphers = [
        ("aes", Cipher::Aes128),
        ("aes192", Cipher::Aes192),
        ("aes256", Cipher::Aes256),
        ("des", Cipher::Des),
        ("aes128", Cipher::Aes128),
    ];
    let protocol = secrets.choice("auth_protocol", &protocols)?;
    let cipher = secrets.choice("privacy_protocol", &ciphers)?;
    let authentication = pair(secrets, "auth", protocol)?;
    let privacy = pair(secrets, "privacy", cipher)?;
    let password = authentication.map_or("", |(_, password)| password);
    let mut security = Security::new(user.as_bytes(), password.as_bytes());
    if let Some(context) = secrets.get("context") {
        security = security.with_context_name(context);
    }
    let auth = match (authentication, privacy) {
        (None, None) => Auth::NoAuthNoPriv,
        (None, Some(_)) => {
            return Err(
                "privacy without authentication is not possible; auth_protocol and auth_password \
                        are missing"
                    .to_owned(),
            );
        }
        (Some((protocol, _)), None) => {
            security = security.with_auth_protocol(protocol);
            Auth::AuthNoPriv
        }
        (Some((protocol, _)), Some((cipher, password))) => {
            if cipher.priv_key_needs_extension(&protocol) {
                return Err(
                    "this privacy_protocol needs a longer key than this auth_protocol gives, and \
                            makers lengthen it differently; expected aes, or sha256 and above"
                        .to_owned(),
                );
            }
            security = security.with_auth_protocol(protocol);
            Auth::AuthPriv { cipher, privacy_password: password.as_bytes().to_vec() }
        }
    };
    Ok(security.with_auth(auth))
}

/// The protocol and the password of `auth` or `privacy`: both or neither.
fn pair<'a, T>(
    secrets: &'a Secrets,
    name: &str,
    protocol: Option<T>,
) -> Result<Option<(T, &'a str)>, String> {
    match (protocol, secrets.get(&format!("{name}_password"))) {
        (None, None) => Ok(None),
        (Some(protocol), Some(password)) if password.len() >= SHORTEST_PASSWORD => {
            Ok(Some((protocol, password)))
        }
        (Some(_), Some(_)) => {
            Err(format!("{name}_password has fewer than {SHORTEST_PASSWORD} characters"))
        }
        (Some(_), None) => Err(format!("{name}_password is missing")),
        (None, Some(_)) => Err(format!("{name}_protocol is missing")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(text: &str) -> Result<SnmpLogin, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("login");
        std::fs::write(&path, text.replace("; ", "\n")).unwrap();
        SnmpLogin::from_file(&path).map_err(|message| {
            let (_, problem) = message.split_once("\": ").unwrap();
            problem.to_owned()
        })
    }

    #[test]
    fn the_level_follows_from_what_is_given() {
        assert!(matches!(login("community = c").unwrap().0, Identity::Community(_)));
        for text in [
            "user = u",
            "user = u; auth_protocol = SHA; auth_password = s3cret-s3cret",
            "user = u; auth_protocol = sha-256; auth_password = s3cret-s3cret; privacy_protocol = AES256; \
             privacy_password = pr1vate-pr1vate; context = x",
        ] {
            let login = login(text).unwrap();
            assert!(matches!(login.0, Identity::User(_)));
            assert_eq!(format!("{login:?}"), "SnmpLogin(***)");
        }
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let messages = [
            "context = x",
            "community = c; user = u",
            "community = c; auth_password = s3cret-s3cret",
            "user = u; auth_protocol = sha",
            "user = u; auth_password = s3cret-s3cret",
            "user = u; auth_protocol = sha; auth_password = short",
            "user = u; auth_protocol = crc; auth_password = s3cret-s3cret",
            "user = u; privacy_protocol = aes; privacy_password = pr1vate-pr1vate",
            "user = u; auth_protocol = md5; auth_password = s3cret-s3cret; privacy_protocol = aes256; \
             privacy_password = pr1vate-pr1vate",
        ]
        .map(|text| login(text).unwrap_err());
        insta::assert_snapshot!(messages.join("\n"), @r#"
        community and user are missing; expected one, for v2c or for v3
        community and user are given; expected one, for v2c or for v3
        auth_password belongs to a user of v3, but a community is given
        auth_password is missing
        auth_protocol is missing
        auth_password has fewer than 8 characters
        auth_protocol is none of those known; expected sha, sha224, sha256, sha384, sha512, md5, sha1
        privacy without authentication is not possible; auth_protocol and auth_password are missing
        this privacy_protocol needs a longer key than this auth_protocol gives, and makers lengthen it differently; expected aes, or sha256 and above
        "#);
    }
}
