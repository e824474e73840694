//! What a platform engineer's commands write into a management cluster: the operators' installation, hosted clusters,
//! node pools.
//!
//! Flags become objects, and nothing else happens here: no file is read, no cluster and no Azure is asked, no clock
//! is looked at, and chance is handed in. So `--render` and the real command are the same function, every flag has one
//! place where its rules are checked, and every rendered object is a golden file. The binary reads the files that flags
//! name, calls in here, and prints or applies what it gets.
//!
//! * [`install`]: the operators and all they need ([`install::Args`] to objects, definitions first);
//! * [`cluster`]: a HostedCluster, the secrets it names and its first node pools;
//! * [`nodepool`]: one more pool;
//! * [`upgrade`]: whether an upgrade may begin and what it will do, from facts that the caller read;
//! * [`stream`]: the newest release of a stream;
//! * [`infra`]: the file in which `create infra azure` says what it made;
//! * [`documents`]: objects as YAML, JSON, a template or a chart.
//!
//! Flags have the names and defaults that scripts know. A combination that cannot work is refused before anything is
//! read, by an error that names the flags and the way out ([`Refused`]).
//!
//! Rejected: typed structs for the objects. They are written once, in the order and with the empty parts that existing
//! tools expect; the definitions (and a dry run in the tests) say whether they are right.

pub mod cluster;
pub mod documents;
pub mod flags;
pub mod infra;
pub mod install;
pub mod nodepool;
pub mod stream;
pub mod upgrade;

pub use flags::Refused;
