//! Draws from distributions, by bits that are handed in: the same bits give the same draw.

/// Uniform in `0 < u < 1`.
fn unit(bits: u64) -> f64 {
    // 53 bits fit a double; the half keeps both ends out.
    ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

fn halves(bits: u128) -> (u64, u64) {
    // Both casts keep the lower 64 bits, which is meant.
    ((bits >> 64) as u64, bits as u64)
}

/// A log-normal given by its median and its 90th percentile.
pub fn log_normal(median: f64, p90: f64, bits: u128) -> f64 {
    let (a, b) = halves(bits);
    let (a, b) = (unit(a), unit(b));
    let z = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
    // 1.2816 is where the standard normal has nine tenths behind it.
    let sigma = (p90 / median).max(1.0).ln() / 1.281_6;
    median * (sigma * z).exp()
}

/// An exponential given by its median.
pub fn exponential(median: f64, bits: u128) -> f64 {
    -unit(halves(bits).0).ln() * median / std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::hash;

    fn quantiles(draw: impl Fn(u128) -> f64) -> (f64, f64) {
        let mut all: Vec<f64> = (0..4_000).map(|i: u32| draw(hash(3, &[&i.to_string()]))).collect();
        all.sort_by(f64::total_cmp);
        (all[2_000], all[3_600])
    }

    #[test]
    fn draws_have_their_shape() {
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.1, "{a} is not about {b}");
        let (p50, p90) = quantiles(|b| log_normal(3.0, 8.0, b));
        near(p50, 3.0);
        near(p90, 8.0);
        let (p50, p90) = quantiles(|b| exponential(8.0, b));
        near(p50, 8.0);
        near(p90, 8.0 * 3.32);
        assert_eq!(log_normal(3.0, 3.0, 5), 3.0, "no spread");
    }
}
