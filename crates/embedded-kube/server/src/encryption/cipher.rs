//! The ciphers, and the envelope of a KMS.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    AES_128, AES_256, Algorithm, DecryptionContext, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey,
    UnboundCipherKey,
};
use aws_lc_rs::iv::{FixedLength, IV_LEN_128_BIT};

/// Random bytes for keys and nonces. The injected randomness is for names; this one is for secrets.
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    if aws_lc_rs::rand::fill(&mut out).is_err() {
        // The library has no source of randomness only where the process could not have started.
        tracing::error!("no random bytes");
    }
    out
}

/// A key of the configuration file.
pub(super) enum Aes {
    Cbc { algorithm: &'static Algorithm, secret: Vec<u8> },
    Gcm(Gcm),
}

impl Aes {
    pub(super) fn cbc(secret: &[u8]) -> Option<Aes> {
        let algorithm = match secret.len() {
            16 => &AES_128,
            32 => &AES_256,
            _ => return None,
        };
        Some(Aes::Cbc { algorithm, secret: secret.to_vec() })
    }

    pub(super) fn gcm(secret: &[u8]) -> Option<Aes> {
        Gcm::new(secret).map(Aes::Gcm)
    }

    /// The vector, then the data.
    pub(super) fn seal(&self, place: &str, plain: &[u8]) -> Option<Vec<u8>> {
        match self {
            Aes::Gcm(g) => g.seal(place.as_bytes(), plain),
            Aes::Cbc { algorithm, secret } => {
                let key = UnboundCipherKey::new(algorithm, secret).ok()?;
                let key = PaddedBlockEncryptingKey::cbc_pkcs7(key).ok()?;
                let mut data = plain.to_vec();
                let DecryptionContext::Iv128(iv) = key.encrypt(&mut data).ok()? else { return None };
                let iv: &[u8; IV_LEN_128_BIT] = iv.as_ref();
                Some([iv.as_slice(), &data].concat())
            }
        }
    }

    pub(super) fn open(&self, place: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        match self {
            Aes::Gcm(g) => g.open(place.as_bytes(), sealed),
            Aes::Cbc { algorithm, secret } => {
                let (iv, data) = sealed.split_first_chunk::<IV_LEN_128_BIT>()?;
                let key = UnboundCipherKey::new(algorithm, secret).ok()?;
                let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?;
                let mut data = data.to_vec();
                let context = DecryptionContext::Iv128(FixedLength::from(iv));
                key.decrypt(&mut data, context).ok().map(|p| p.to_vec())
            }
        }
    }
}

/// AES-GCM: the nonce, the data, the tag.
pub(super) struct Gcm(LessSafeKey);

impl Gcm {
    pub(super) fn new(secret: &[u8]) -> Option<Gcm> {
        let algorithm = match secret.len() {
            16 => &AES_128_GCM,
            32 => &AES_256_GCM,
            _ => return None,
        };
        Some(Gcm(LessSafeKey::new(UnboundKey::new(algorithm, secret).ok()?)))
    }

    pub(super) fn seal(&self, place: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
        let nonce = random::<NONCE_LEN>();
        let mut data = plain.to_vec();
        let aad = Aad::from(place);
        self.0.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut data).ok()?;
        Some([nonce.as_slice(), &data].concat())
    }

    pub(super) fn open(&self, place: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, data) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut data = data.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        self.0.open_in_place(nonce, Aad::from(place), &mut data).ok().map(|p| p.to_vec())
    }
}

/// What a KMS provider stores: the `EncryptedObject` message of its second version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) data: Vec<u8>,
    pub(super) key_id: String,
    pub(super) sealed_key: Vec<u8>,
}

impl Envelope {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for (number, bytes) in
            [(1u8, &self.data), (2, &self.key_id.clone().into_bytes()), (3, &self.sealed_key)]
        {
            out.push(number << 3 | 2);
            let mut n = bytes.len();
            while n > 127 {
                out.push(n as u8 | 0x80);
                n >>= 7;
            }
            out.push(n as u8);
            out.extend_from_slice(bytes);
        }
    }

    pub(super) fn decode(mut from: &[u8]) -> Option<Envelope> {
        let mut out = Envelope::default();
        while let Some((tag, rest)) = from.split_first() {
            let (mut n, mut shift, mut rest) = (0usize, 0, rest);
            loop {
                let (b, more) = rest.split_first()?;
                rest = more;
                n |= usize::from(b & 0x7f).checked_shl(shift)?;
                shift += 7;
                match b & 0x80 {
                    0 => break,
                    _ if shift > 28 => return None,
                    _ => {}
                }
            }
            if tag & 7 == 0 {
                // Which kind of key source it is: ours is the first.
                from = rest;
                continue;
            }
            let (bytes, more) = rest.split_at_checked(n)?;
            from = more;
            match tag >> 3 {
                1 => out.data = bytes.to_vec(),
                2 => out.key_id = String::from_utf8(bytes.to_vec()).ok()?,
                3 => out.sealed_key = bytes.to_vec(),
                _ => {}
            }
        }
        (!out.sealed_key.is_empty()).then_some(out)
    }
}
