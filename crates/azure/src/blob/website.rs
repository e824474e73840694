//! The static website of an account: its container `$web`, served at a host of its own.

use super::Blobs;
use crate::pipeline::Error;
use crate::xml;
use http::Method;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Website {
    /// Shown for `/`, and for what ends in `/`.
    pub index: Option<String>,
    /// A blob that is shown when there is none.
    pub error_404: Option<String>,
}

const AT: [(&str, &str); 2] = [("restype", "service"), ("comp", "properties")];

impl Blobs {
    /// The website, if it is switched on.
    pub async fn website(&self) -> Result<Option<Website>, Error> {
        let answer = self.send(self.call(Method::GET, "", &AT)).await?;
        let doc = xml::read_as(&answer.body, "StorageServiceProperties").map_err(|source| Error::Xml {
            method: "GET".to_owned(),
            path: "/".to_owned(),
            source,
        })?;
        let site = doc.child("StaticWebsite").filter(|w| w.child_text("Enabled") == Some("true"));
        Ok(site
            .map(|w| Website { index: w.said("IndexDocument"), error_404: w.said("ErrorDocument404Path") }))
    }

    /// Switches the website on or off; the account's other properties stay. On, `$web` exists.
    pub async fn set_website(&self, site: Option<&Website>) -> Result<(), Error> {
        let leaf = |name: &str, v: &Option<String>| {
            v.as_ref().map(|v| format!("<{name}>{}</{name}>", xml::escape(v))).unwrap_or_default()
        };
        let inner = match site {
            None => "<Enabled>false</Enabled>".to_owned(),
            Some(w) => format!(
                "<Enabled>true</Enabled>{}{}",
                leaf("IndexDocument", &w.index),
                leaf("ErrorDocument404Path", &w.error_404)
            ),
        };
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceProperties><StaticWebsite>{inner}</StaticWebsite></StorageServiceProperties>"
        );
        let call = self.call(Method::PUT, "", &AT).header("content-type", "application/xml");
        self.send(call.content(body.into())).await.map(drop)
    }
}
