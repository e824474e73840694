//! How fast the simulated Azure is.
//!
//! `real` takes the measured times, `fast` a fiftieth of them, `instant` none: an operation is accepted, is seen
//! pending in the first answer, and is over at the next look. `manual` waits until it is told to go on.
//! `Retry-After` shrinks with the times, so real clients speed up too.

use jiff::SignedDuration;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    #[default]
    Instant,
    Fast,
    Real,
    /// Nothing ends by itself; [`crate::World::finish_operations`] ends it.
    Manual,
}

impl std::str::FromStr for Profile {
    type Err = String;

    fn from_str(s: &str) -> Result<Profile, String> {
        match s {
            "instant" => Ok(Profile::Instant),
            "fast" => Ok(Profile::Fast),
            "real" => Ok(Profile::Real),
            "manual" => Ok(Profile::Manual),
            _ => Err(format!("'{s}' is not a profile: instant, fast, real or manual")),
        }
    }
}

impl Profile {
    /// How long something takes that takes `seconds` in Azure; `None` for ever.
    pub fn lasts(self, seconds: f64) -> Option<SignedDuration> {
        let scale = match self {
            Profile::Instant => 0.0,
            Profile::Fast => 0.02,
            Profile::Real => 1.0,
            Profile::Manual => return None,
        };
        Some(SignedDuration::try_from_secs_f64(seconds * scale).unwrap_or(SignedDuration::ZERO))
    }

    /// The header that tells a client when to ask again. Clients read 0 as their default of half a minute, so
    /// less than a second is said in milliseconds, which the official clients understand.
    pub fn retry_after(self, seconds: u32) -> Option<(&'static str, String)> {
        match self {
            Profile::Real | Profile::Manual if seconds == 0 => None,
            Profile::Real | Profile::Manual => Some(("retry-after", seconds.to_string())),
            Profile::Instant => Some(("retry-after-ms", "5".to_owned())),
            Profile::Fast => Some(("retry-after-ms", (u64::from(seconds.max(1)) * 20).to_string())),
        }
    }
}
