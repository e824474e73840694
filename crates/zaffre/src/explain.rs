//! `zaffre explain`: reads a management cluster and draws what it says.

use crate::cli::Format;
use crate::cli::explain::{Explain, HostedClusterArgs};
use crate::output;
use crate::reach::{self, Otherwise};
use hypershift::explain;

pub async fn run(what: Explain) -> anyhow::Result<()> {
    match what {
        Explain::Hostedcluster(args) => hosted_cluster(args).await,
    }
}

async fn hosted_cluster(args: HostedClusterArgs) -> anyhow::Result<()> {
    let client = reach::cluster(args.kubeconfig.as_deref(), "--kubeconfig", Otherwise::Anywhere).await?;
    let facts = explain::read::facts(&client, &args.namespace, &args.name).await?;
    let tree = explain::explain(&facts);
    match args.output {
        Format::Text => {
            output::line(explain::text(&tree, clock::system().now(), args.all).trim_end());
            Ok(())
        }
        format => output::value(format, &serde_json::to_value(&tree)?),
    }
}
