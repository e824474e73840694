//! Keys of vaults: made and used by aws-lc; the private half never leaves but in a certificate's secret.

use aws_lc_rs::digest::{self, Digest};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{
    KeyPair as RsaKeyPair, KeySize, OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OaepAlgorithm,
    OaepPrivateDecryptingKey, OaepPublicEncryptingKey, Pkcs1PrivateDecryptingKey, Pkcs1PublicEncryptingKey,
    PrivateDecryptingKey, PublicEncryptingKey,
};
use aws_lc_rs::signature::{self, EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair as _, RsaEncoding};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CryptoError {
    #[error("the key cannot be made")]
    Make,
    #[error("the key is malformed")]
    Malformed,
    #[error("the key type '{0}' is not supported")]
    KeyType(String),
    #[error("the algorithm '{0}' does not fit the key")]
    Algorithm(String),
    #[error("the value does not fit the key or algorithm")]
    Value,
}

/// Which key is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wanted {
    Rsa(u16),
    Ec(Curve),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Curve {
    P256,
    P384,
    P521,
    P256K,
}

impl Curve {
    pub fn name(self) -> &'static str {
        match self {
            Curve::P256 => "P-256",
            Curve::P384 => "P-384",
            Curve::P521 => "P-521",
            Curve::P256K => "P-256K",
        }
    }

    fn parse(name: &str) -> Option<Curve> {
        [Curve::P256, Curve::P384, Curve::P521, Curve::P256K].into_iter().find(|c| c.name() == name)
    }

    fn signing(self) -> &'static EcdsaSigningAlgorithm {
        match self {
            Curve::P256 => &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
            Curve::P384 => &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
            Curve::P521 => &signature::ECDSA_P521_SHA512_FIXED_SIGNING,
            Curve::P256K => &signature::ECDSA_P256K1_SHA256_FIXED_SIGNING,
        }
    }

    fn verification(self) -> &'static signature::EcdsaVerificationAlgorithm {
        match self {
            Curve::P256 => &signature::ECDSA_P256_SHA256_FIXED,
            Curve::P384 => &signature::ECDSA_P384_SHA384_FIXED,
            Curve::P521 => &signature::ECDSA_P521_SHA512_FIXED,
            Curve::P256K => &signature::ECDSA_P256K1_SHA256_FIXED,
        }
    }

    fn algorithm(self) -> &'static str {
        match self {
            Curve::P256 => "ES256",
            Curve::P384 => "ES384",
            Curve::P521 => "ES512",
            Curve::P256K => "ES256K",
        }
    }
}

impl Wanted {
    /// Reads them of a request; what is given and of another type is not what anybody wanted.
    pub fn read(v: &serde_json::Value) -> Result<Wanted, CryptoError> {
        let text = |name: &str| v[name].as_str().or_else(|| (!v[name].is_null()).then_some("?"));
        let size = v["key_size"].as_u64().or_else(|| (!v["key_size"].is_null()).then_some(0));
        Wanted::parse(text("kty").unwrap_or_default(), size, text("crv"))
    }

    /// Reads `kty`, `key_size` and `crv`.
    pub fn parse(kty: &str, size: Option<u64>, crv: Option<&str>) -> Result<Wanted, CryptoError> {
        let bad = |what: &str| CryptoError::KeyType(what.chars().take(40).collect());
        match kty {
            "RSA" | "RSA-HSM" => match size.unwrap_or(2048) {
                n @ (2048 | 3072 | 4096) => Ok(Wanted::Rsa(n as u16)),
                n => Err(bad(&format!("RSA with {n} bits"))),
            },
            "EC" | "EC-HSM" => {
                let crv = crv.unwrap_or("P-256");
                Curve::parse(crv).map(Wanted::Ec).ok_or_else(|| bad(crv))
            }
            other => Err(bad(other)),
        }
    }

    pub fn kty(self) -> &'static str {
        match self {
            Wanted::Rsa(_) => "RSA",
            Wanted::Ec(_) => "EC",
        }
    }
}

/// A private key with what is public about it. The private half is not printed.
#[derive(Clone, Serialize, Deserialize)]
pub struct Material {
    pub kind: Wanted,
    pkcs8: Arc<[u8]>,
    /// `SubjectPublicKeyInfo` of an RSA key, the uncompressed point of another.
    public: Arc<[u8]>,
}

impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Material({:?}, <redacted>)", self.kind)
    }
}

/// The next element of DER: tag, content, rest.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        n if n < 0x80 => (usize::from(n), rest),
        n => {
            let count = usize::from(n & 0x7f);
            if count > 4 || rest.len() < count {
                return None;
            }
            (rest[..count].iter().fold(0_usize, |a, b| (a << 8) | usize::from(*b)), &rest[count..])
        }
    };
    (rest.len() >= len).then(|| (tag, &rest[..len], &rest[len..]))
}

/// Modulus and exponent of a `RSAPublicKey`.
fn components(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, body, _) = element(der)?;
    let (_, n, rest) = element(body)?;
    let (_, e, _) = element(rest)?;
    let zeros = |b: &[u8]| b.iter().take_while(|x| **x == 0).count();
    Some((&n[zeros(n)..], &e[zeros(e)..]))
}

fn decoded(v: &Value, name: &str) -> Option<Vec<u8>> {
    let text = v[name].as_str()?;
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok().filter(|b| b.len() <= 1024)
}

impl Material {
    pub fn generate(kind: Wanted) -> Result<Material, CryptoError> {
        match kind {
            Wanted::Rsa(bits) => {
                let size = match bits {
                    2048 => KeySize::Rsa2048,
                    3072 => KeySize::Rsa3072,
                    _ => KeySize::Rsa4096,
                };
                Material::of_rsa(&RsaKeyPair::generate(size).map_err(|_| CryptoError::Make)?)
            }
            Wanted::Ec(curve) => {
                let pair = EcdsaKeyPair::generate(curve.signing()).map_err(|_| CryptoError::Make)?;
                Material::of_ec(curve, &pair)
            }
        }
    }

    fn of_rsa(pair: &RsaKeyPair) -> Result<Material, CryptoError> {
        let pkcs8: Pkcs8V1Der<'static> = pair.as_der().map_err(|_| CryptoError::Malformed)?;
        let spki: PublicKeyX509Der<'static> =
            pair.public_key().as_der().map_err(|_| CryptoError::Malformed)?;
        let bits = u16::try_from(pair.public_modulus_len() * 8).map_err(|_| CryptoError::Malformed)?;
        if !matches!(bits, 2048 | 3072 | 4096) {
            return Err(CryptoError::KeyType(format!("RSA with {bits} bits")));
        }
        Ok(Material { kind: Wanted::Rsa(bits), pkcs8: pkcs8.as_ref().into(), public: spki.as_ref().into() })
    }

    fn of_ec(curve: Curve, pair: &EcdsaKeyPair) -> Result<Material, CryptoError> {
        let pkcs8 = pair.to_pkcs8v1().map_err(|_| CryptoError::Malformed)?;
        let public = pair.public_key().as_ref().into();
        Ok(Material { kind: Wanted::Ec(curve), pkcs8: pkcs8.as_ref().into(), public })
    }

    /// A key in PKCS#8.
    pub fn from_pkcs8(der: &[u8]) -> Result<Material, CryptoError> {
        if let Ok(pair) = RsaKeyPair::from_pkcs8(der) {
            return Material::of_rsa(&pair);
        }
        for curve in [Curve::P256, Curve::P384, Curve::P521, Curve::P256K] {
            if let Ok(pair) = EcdsaKeyPair::from_pkcs8(curve.signing(), der) {
                return Material::of_ec(curve, &pair);
            }
        }
        Err(CryptoError::Malformed)
    }

    /// A key as JSON Web Key, with its private half.
    pub fn from_jwk(v: &Value) -> Result<Material, CryptoError> {
        let part = |name: &str| decoded(v, name).ok_or(CryptoError::Malformed);
        match v["kty"].as_str().unwrap_or_default() {
            "RSA" | "RSA-HSM" => {
                let c = aws_lc_rs::rsa::KeyPairComponents {
                    public_key: aws_lc_rs::rsa::PublicKeyComponents { n: part("n")?, e: part("e")? },
                    d: part("d")?,
                    p: part("p")?,
                    q: part("q")?,
                    dP: part("dp")?,
                    dQ: part("dq")?,
                    qInv: part("qi")?,
                };
                Material::of_rsa(&RsaKeyPair::from_components(&c).map_err(|_| CryptoError::Malformed)?)
            }
            "EC" | "EC-HSM" => {
                let crv = v["crv"].as_str().unwrap_or_default();
                let curve = Curve::parse(crv).ok_or_else(|| CryptoError::KeyType(crv.to_owned()))?;
                let mut point = vec![4];
                point.extend(part("x")?);
                point.extend(part("y")?);
                let pair =
                    EcdsaKeyPair::from_private_key_and_public_key(curve.signing(), &part("d")?, &point)
                        .map_err(|_| CryptoError::Malformed)?;
                Material::of_ec(curve, &pair)
            }
            other => Err(CryptoError::KeyType(other.chars().take(40).collect())),
        }
    }

    pub fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// The public half as JSON Web Key fields.
    pub fn jwk(&self) -> Value {
        let text = |b: &[u8]| Value::String(URL_SAFE_NO_PAD.encode(b));
        match self.kind {
            Wanted::Rsa(_) => {
                // SubjectPublicKeyInfo: algorithm, then a bit string with the key.
                let key = element(&self.public)
                    .and_then(|(_, body, _)| element(body))
                    .and_then(|(_, _, rest)| element(rest))
                    .and_then(|(_, bits, _)| components(bits.get(1..)?));
                let (n, e) = key.unwrap_or_default();
                json!({"kty": "RSA", "n": text(n), "e": text(e)})
            }
            Wanted::Ec(curve) => {
                let point = self.public.get(1..).unwrap_or_default();
                let (x, y) = point.split_at(point.len() / 2);
                json!({"kty": "EC", "crv": curve.name(), "x": text(x), "y": text(y)})
            }
        }
    }

    pub fn encrypt(&self, algorithm: &str, value: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let key = || match self.kind {
            Wanted::Rsa(_) => PublicEncryptingKey::from_der(&self.public).map_err(|_| CryptoError::Malformed),
            Wanted::Ec(_) => Err(CryptoError::Algorithm(algorithm.to_owned())),
        };
        let out = match cipher(algorithm)? {
            Cipher::Oaep(with) => {
                let key = OaepPublicEncryptingKey::new(key()?).map_err(|_| CryptoError::Malformed)?;
                let mut out = vec![0; key.ciphertext_size()];
                let n = key.encrypt(with, value, &mut out, None).map_err(|_| CryptoError::Value)?.len();
                out.truncate(n);
                out
            }
            Cipher::Pkcs1 => {
                let key = Pkcs1PublicEncryptingKey::new(key()?).map_err(|_| CryptoError::Malformed)?;
                let mut out = vec![0; key.ciphertext_size()];
                let n = key.encrypt(value, &mut out).map_err(|_| CryptoError::Value)?.len();
                out.truncate(n);
                out
            }
        };
        Ok(out)
    }

    pub fn decrypt(&self, algorithm: &str, value: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let key = || match self.kind {
            Wanted::Rsa(_) => {
                PrivateDecryptingKey::from_pkcs8(&self.pkcs8).map_err(|_| CryptoError::Malformed)
            }
            Wanted::Ec(_) => Err(CryptoError::Algorithm(algorithm.to_owned())),
        };
        let out = match cipher(algorithm)? {
            Cipher::Oaep(with) => {
                let key = OaepPrivateDecryptingKey::new(key()?).map_err(|_| CryptoError::Malformed)?;
                let mut out = vec![0; key.min_output_size()];
                let n = key.decrypt(with, value, &mut out, None).map_err(|_| CryptoError::Value)?.len();
                out.truncate(n);
                out
            }
            Cipher::Pkcs1 => {
                let key = Pkcs1PrivateDecryptingKey::new(key()?).map_err(|_| CryptoError::Malformed)?;
                let mut out = vec![0; key.min_output_size()];
                let n = key.decrypt(value, &mut out).map_err(|_| CryptoError::Value)?.len();
                out.truncate(n);
                out
            }
        };
        Ok(out)
    }

    /// Signs a digest.
    pub fn sign(&self, algorithm: &str, value: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let digest = self.digest(algorithm, value)?;
        match self.kind {
            Wanted::Rsa(_) => {
                let pair = RsaKeyPair::from_pkcs8(&self.pkcs8).map_err(|_| CryptoError::Malformed)?;
                let mut out = vec![0; pair.public_modulus_len()];
                pair.sign_digest(encoding(algorithm)?, &digest, &mut out).map_err(|_| CryptoError::Value)?;
                Ok(out)
            }
            Wanted::Ec(curve) => {
                let pair = EcdsaKeyPair::from_pkcs8(curve.signing(), &self.pkcs8)
                    .map_err(|_| CryptoError::Malformed)?;
                Ok(pair.sign_digest(&digest).map_err(|_| CryptoError::Value)?.as_ref().to_vec())
            }
        }
    }

    pub fn verify(&self, algorithm: &str, value: &[u8], given: &[u8]) -> Result<bool, CryptoError> {
        let digest = self.digest(algorithm, value)?;
        let key: &dyn Fn(&'static dyn signature::VerificationAlgorithm) -> bool = &|with| {
            signature::UnparsedPublicKey::new(with, &*self.public).verify_digest(&digest, given).is_ok()
        };
        Ok(match self.kind {
            Wanted::Rsa(_) => key(match algorithm {
                "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
                "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
                "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
                "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
                "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
                _ => &signature::RSA_PSS_2048_8192_SHA512,
            }),
            Wanted::Ec(curve) => key(curve.verification()),
        })
    }

    fn digest(&self, algorithm: &str, value: &[u8]) -> Result<Digest, CryptoError> {
        let fits = match self.kind {
            Wanted::Rsa(_) => encoding(algorithm).is_ok(),
            Wanted::Ec(curve) => curve.algorithm() == algorithm,
        };
        if !fits {
            return Err(CryptoError::Algorithm(algorithm.chars().take(40).collect()));
        }
        let of = match algorithm.get(2..5) {
            Some("256") => &digest::SHA256,
            Some("384") => &digest::SHA384,
            _ => &digest::SHA512,
        };
        Digest::import_less_safe(value, of).map_err(|_| CryptoError::Value)
    }
}

enum Cipher {
    Oaep(&'static OaepAlgorithm),
    Pkcs1,
}

fn cipher(algorithm: &str) -> Result<Cipher, CryptoError> {
    Ok(match algorithm {
        "RSA-OAEP" => Cipher::Oaep(&OAEP_SHA1_MGF1SHA1),
        "RSA-OAEP-256" => Cipher::Oaep(&OAEP_SHA256_MGF1SHA256),
        "RSA1_5" => Cipher::Pkcs1,
        other => return Err(CryptoError::Algorithm(other.chars().take(40).collect())),
    })
}

fn encoding(algorithm: &str) -> Result<&'static dyn RsaEncoding, CryptoError> {
    Ok(match algorithm {
        "RS256" => &signature::RSA_PKCS1_SHA256,
        "RS384" => &signature::RSA_PKCS1_SHA384,
        "RS512" => &signature::RSA_PKCS1_SHA512,
        "PS256" => &signature::RSA_PSS_SHA256,
        "PS384" => &signature::RSA_PSS_SHA384,
        "PS512" => &signature::RSA_PSS_SHA512,
        other => return Err(CryptoError::Algorithm(other.chars().take(40).collect())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_do_what_they_can_and_nothing_else() {
        let rsa = Material::generate(Wanted::Rsa(2048)).unwrap();
        for algorithm in ["RSA-OAEP-256", "RSA-OAEP", "RSA1_5"] {
            let secret = rsa.encrypt(algorithm, b"hello").unwrap();
            assert_eq!(rsa.decrypt(algorithm, &secret).unwrap(), b"hello", "{algorithm}");
        }
        let wrong = rsa.encrypt("RSA-OAEP", b"hello").unwrap();
        assert_eq!(rsa.decrypt("RSA-OAEP-256", &wrong), Err(CryptoError::Value));
        assert_eq!(rsa.encrypt("RSA-OAEP-256", &[0; 300]), Err(CryptoError::Value));
        let sum = digest::digest(&digest::SHA256, b"text");
        for algorithm in ["RS256", "PS256"] {
            let s = rsa.sign(algorithm, sum.as_ref()).unwrap();
            assert!(rsa.verify(algorithm, sum.as_ref(), &s).unwrap());
            assert!(!rsa.verify(algorithm, &[0; 32], &s).unwrap());
        }
        assert_eq!(rsa.sign("RS256", b"short"), Err(CryptoError::Value));
        assert!(matches!(rsa.sign("ES256", sum.as_ref()), Err(CryptoError::Algorithm(_))));
        let jwk = rsa.jwk();
        assert_eq!(decoded(&jwk, "n").unwrap().len(), 256);
        assert_eq!(jwk["e"], "AQAB");
        for curve in [Curve::P256, Curve::P384, Curve::P521, Curve::P256K] {
            let ec = Material::generate(Wanted::Ec(curve)).unwrap();
            let of = match curve {
                Curve::P384 => digest::digest(&digest::SHA384, b"t"),
                Curve::P521 => digest::digest(&digest::SHA512, b"t"),
                _ => digest::digest(&digest::SHA256, b"t"),
            };
            let s = ec.sign(curve.algorithm(), of.as_ref()).unwrap();
            assert!(ec.verify(curve.algorithm(), of.as_ref(), &s).unwrap(), "{curve:?}");
            assert!(matches!(ec.encrypt("RSA-OAEP", b"x"), Err(CryptoError::Algorithm(_))));
            assert_eq!(Material::from_pkcs8(ec.pkcs8()).unwrap().jwk(), ec.jwk());
        }
        assert_eq!(Material::from_pkcs8(rsa.pkcs8()).unwrap().jwk(), jwk);
        assert!(matches!(Wanted::parse("oct", None, None), Err(CryptoError::KeyType(_))));
        assert_eq!(format!("{rsa:?}"), "Material(Rsa(2048), <redacted>)");
    }
}
