//! A cluster's own keys: kept beside the data when there is any, new otherwise.

use crate::api_server::{Error, io, write_private};
use ek_auth::pki::{Authority, Pair, Secret};
use ek_auth::token::{self, Issuer};
use jiff::Timestamp;
use std::fs;
use std::path::{Path, PathBuf};

pub struct Keys {
    pub authority: Authority,
    pub issuer: Issuer,
}

/// Reads the keys in `dir`, making those that are missing. The issuer's address is kept with them: tokens out
/// there carry it.
pub fn load(dir: Option<&Path>, issuer_url: &str, now: Timestamp) -> Result<Keys, Error> {
    let fresh_authority = || Authority::generate("kubernetes", now).map_err(Error::Authority);
    let Some(dir) = dir else {
        let key = token::generate_key().map_err(Error::Issuer)?;
        let issuer = Issuer::new(issuer_url, vec![key]).map_err(Error::Issuer)?;
        return Ok(Keys { authority: fresh_authority()?, issuer });
    };
    fs::create_dir_all(dir).map_err(io("create", dir))?;
    let (cert, key, sa) = (dir.join("ca.crt"), dir.join("ca.key"), dir.join("sa.key"));
    let authority = match (read(&cert)?, read(&key)?) {
        (Some(cert_pem), Some(key_pem)) => {
            Authority::from_pair(Pair { cert_pem, key_pem: Secret::new(key_pem) })
                .map_err(Error::Authority)?
        }
        _ => {
            let a = fresh_authority()?;
            write_private(&key, a.pair().key_pem.expose()).map_err(io("write", &key))?;
            write_private(&cert, a.cert_pem()).map_err(io("write", &cert))?;
            a
        }
    };
    let signing = match read(&sa)? {
        Some(pem) => Secret::new(pem),
        None => {
            let k = token::generate_key().map_err(Error::Issuer)?;
            write_private(&sa, k.expose()).map_err(io("write", &sa))?;
            k
        }
    };
    let mut keys = vec![signing];
    keys.extend(retired_keys(dir)?);
    let issuer = Issuer::new(issuer_url, keys).map_err(Error::Issuer)?;
    Ok(Keys { authority, issuer })
}

/// Keys that no longer sign but still verify: `sa-*.key` beside `sa.key`, newest first. Deleting one of these
/// files ends the tokens it signed at the next start.
fn retired_keys(dir: &Path) -> Result<Vec<Secret>, Error> {
    let mut names: Vec<PathBuf> = fs::read_dir(dir)
        .map_err(io("list", dir))?
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| {
            let name = p.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            name.starts_with("sa-") && name.ends_with(".key")
        })
        .collect();
    names.sort();
    names.reverse();
    names.iter().filter_map(|p| read(p).transpose()).map(|r| r.map(Secret::new)).collect()
}

fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(s) => Ok(Some(s)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io("read", path)(e)),
    }
}
