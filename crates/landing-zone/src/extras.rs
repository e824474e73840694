//! What commands make outside of Resource Manager: documents, applications, secrets, files. They are part of what is
//! shown before and told while it is done, and are made when everything in Resource Manager is.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Act {
    Create,
    Keep,
    Change,
    Delete,
}

impl Act {
    /// What leads from what is there to what should be.
    pub fn of(there: bool, same: bool) -> Act {
        match (there, same) {
            (false, _) => Act::Create,
            (true, true) => Act::Keep,
            (true, false) => Act::Change,
        }
    }

    pub fn done(self) -> &'static str {
        match self {
            Act::Create => "created",
            Act::Keep => "kept",
            Act::Change => "changed",
            Act::Delete => "deleted",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Extra {
    #[serde(rename = "do")]
    pub act: Act,
    /// `application demo-cpo`.
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Extra {
    pub fn new(act: Act, what: impl Into<String>) -> Extra {
        Extra { act, what: what.into(), note: None }
    }

    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Extra {
        self.note = Some(note.into());
        self
    }
}

/// Whether there is anything to do.
pub fn changes(extras: &[Extra]) -> bool {
    extras.iter().any(|e| e.act != Act::Keep)
}
