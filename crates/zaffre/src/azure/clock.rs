//! `zaffre azure clock`.

use super::admin::Admin;
use crate::cli::Format;
use crate::cli::azure::ClockWhat;
use crate::output;
use http::Method;

pub async fn run(admin: &Admin, what: Option<ClockWhat>, format: Format) -> anyhow::Result<()> {
    let shown = match what.unwrap_or(ClockWhat::Show) {
        ClockWhat::Show => admin.send(Method::GET, "clock", &[], None).await?,
        ClockWhat::Advance { seconds } => {
            let query = [("seconds", seconds.to_string())];
            admin.send(Method::POST, "clock/advance", &query, None).await?
        }
        ClockWhat::Scale { scale } => {
            admin.send(Method::POST, "clock", &[("scale", scale.to_string())], None).await?
        }
        ClockWhat::Next => admin.send(Method::POST, "clock/next", &[], None).await?,
    };
    if format != Format::Text {
        return output::value(format, &shown);
    }
    let text = |f: &str| shown[f].as_str().unwrap_or("-").to_owned();
    let rows = [
        ("now", text("now")),
        ("wall", text("wall")),
        ("runs", format!("{} (x{})", text("mode"), shown["scale"])),
        ("next", shown["nextEvent"].as_str().unwrap_or("nothing happens by itself").to_owned()),
    ];
    for (name, value) in rows {
        output::line(&format!("{name}  {value}"));
    }
    Ok(())
}
