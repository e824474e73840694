//! A key to log in with.

use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use landing_zone::issuer::SigningKey;

/// A length and the bytes, as SSH writes everything.
fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

/// A number: a leading zero keeps it positive.
fn number(out: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.first() {
        Some(b) if *b >= 0x80 => string(out, &[&[0], bytes].concat()),
        _ => string(out, bytes),
    }
}

/// Public half as `authorized_keys` has it, private half as PEM.
pub fn generate() -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let key = SigningKey::generate().context("cannot make a key (--generate-ssh)")?;
    let jwk = key.jwk();
    let part = |name: &str| URL_SAFE_NO_PAD.decode(jwk[name].as_str().unwrap_or_default());
    let mut blob = Vec::new();
    string(&mut blob, b"ssh-rsa");
    number(&mut blob, &part("e")?);
    number(&mut blob, &part("n")?);
    let public = format!("ssh-rsa {}\n", STANDARD.encode(blob));
    Ok((public.into_bytes(), key.private_pem().expose().as_bytes().to_vec()))
}
