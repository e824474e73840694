//! Prints a document: `openapi v2`, or `openapi v3 apps v1`.
#![allow(clippy::print_stdout)]

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |i: usize| args.get(i).map_or("", String::as_str);
    let document = match arg(0) {
        "v3" => ek_data::openapi_v3(arg(1), arg(2)),
        _ => ek_data::openapi_v2(),
    };
    println!("{document}");
}
