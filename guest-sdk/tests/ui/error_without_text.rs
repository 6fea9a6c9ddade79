use wasmill_guest::udf;

struct Mute;

/// Fails without a text.
#[udf]
fn mute(x: i64) -> Result<i64, Mute> {
    Ok(x)
}

fn main() {}
