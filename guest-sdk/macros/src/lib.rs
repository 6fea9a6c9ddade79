//! The attribute and derives of the `wasmill-guest` crate, which documents and re-exports them.
#![deny(missing_docs)]

use proc_macro::TokenStream;
use quote::ToTokens;
use syn::{DeriveInput, Item, parse_macro_input};

mod arrow_type;
mod function;
mod glue;
mod init_args;
mod options;
mod signature;
mod state;
mod syntax;

/// Makes a UDF of a function, or a stateful one of an `impl` block.
///
/// # Row functions
///
/// One call per row, in loops that the SDK writes. Doc comments go into the manifest.
///
/// ```
/// use wasmill_guest::udf;
///
/// /// Kilometres per minute; null when a part is missing.
/// #[udf]
/// fn pace(km: Option<f64>, minutes: Option<f64>) -> Option<f64> {
///     Some(km? / minutes?)
/// }
///
/// /// Integer division; a zero fails the row, not the query.
/// #[udf]
/// fn div(a: i64, b: i64) -> Result<i64, &'static str> {
///     a.checked_div(b).ok_or("division by zero")
/// }
///
/// /// Sum, for several types.
/// #[udf(types(i32, i64, f64), total)]
/// fn add<T: std::ops::Add<Output = T>>(a: T, b: T) -> T {
///     a + b
/// }
/// ```
///
/// Where an argument is no `Option`, the result is null for its nulls, and the function is not called
/// for them (with `total` it may be, on arbitrary values). `Option` arguments receive nulls.
///
/// # Batch functions
///
/// `#[udf(batch)]`: one call per batch, over `Column`s that are read
/// where they are, into a `Writer` whose memory is used again. A plain `Column<'_, T>` has arbitrary
/// values under nulls.
///
/// ```
/// use wasmill_guest::{Column, Writer, udf};
///
/// /// Each value over the greatest of its batch.
/// #[udf(batch, volatility = "volatile")]
/// fn relative(x: Column<'_, f64>, out: &mut Writer<f64>) {
///     let top = x.iter().fold(f64::MIN, f64::max);
///     out.fill(x.len(), |row| x.get(row) / top);
/// }
/// ```
///
/// # Stateful functions
///
/// On an `impl` block: `init` makes the state, every method with `&self` or `&mut self` is a UDF, and
/// `close`, which may be missing, ends it. `&self` methods make a resource, `&mut self` a sequence.
///
/// ```
/// use wasmill_guest::{InitArgs, udf};
///
/// /// What to multiply by.
/// #[derive(InitArgs)]
/// struct ScaleArgs {
///     /// The factor.
///     #[init(default = 2)]
///     factor: i64,
/// }
///
/// struct Scale(i64);
///
/// #[udf]
/// impl Scale {
///     fn init(args: ScaleArgs) -> Result<Self, String> {
///         if args.factor == 0 {
///             return Err("factor 0 would lose everything".into());
///         }
///         Ok(Self(args.factor))
///     }
///
///     /// x times the factor.
///     fn scale(&self, x: i64) -> i64 {
///         x * self.0
///     }
/// }
/// ```
///
/// # Options
///
/// | option | on | meaning |
/// | --- | --- | --- |
/// | `batch` | function, method | takes columns instead of rows |
/// | `types(i32, i64)` | generic function | one overload per type; `types((i32, f32), (i64, f64))` for two parameters |
/// | `name = "…"` | all | name of the UDF or of the state |
/// | `volatility = "…"` | all | `"immutable"`, `"stable"` or `"volatile"` |
/// | `nulls = "…"` | batch | `"propagate"` or `"handle"`, where the parameters do not say it |
/// | `batch_size = 1024` | function, method | rows per call that suit it best |
/// | `constants` | function, method | constants come as one row |
/// | `total` | row function | may run on the arbitrary values under nulls, which is faster |
/// | `bind = path` | batch | function from `&BindArgs` to `Result<Field, E>` or `Result<(), E>` |
/// | `state = "…"` | impl | `"resource"` or `"sequence"` |
/// | `skip` | method | is no UDF |
#[proc_macro_attribute]
pub fn udf(options: TokenStream, item: TokenStream) -> TokenStream {
    let original = proc_macro2::TokenStream::from(item.clone());
    let expanded = match parse_macro_input!(item as Item) {
        Item::Fn(function) => function::expand(options.into(), function),
        Item::Impl(block) => state::expand(options.into(), block),
        other => Err(syn::Error::new_spanned(
            other,
            "`#[udf]` goes on a function, or on the `impl` block of a state",
        )),
    };
    expanded
        .unwrap_or_else(|error| {
            // The item itself stays, so that nothing else is reported as missing.
            let error = error.to_compile_error();
            quote::quote!(#error #original)
        })
        .into()
}

/// Makes a struct with named fields stand for an Arrow struct, as argument, result or part of one.
///
/// ```
/// use wasmill_guest::{ArrowType, udf};
///
/// /// A word and where it starts.
/// #[derive(ArrowType)]
/// struct Word {
///     text: String,
///     start: i32,
///     #[arrow(name = "len")]
///     length: Option<i32>,
/// }
///
/// /// The words of a text.
/// #[udf]
/// fn words(text: &str) -> Vec<Word> {
///     text.split_whitespace()
///         .map(|word| Word {
///             start: (word.as_ptr().addr() - text.as_ptr().addr()) as i32,
///             length: Some(word.len() as i32),
///             text: word.to_owned(),
///         })
///         .collect()
/// }
/// ```
#[proc_macro_derive(ArrowType, attributes(arrow))]
pub fn derive_arrow_type(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    finish(arrow_type::expand(&input))
}

/// Makes a type the arguments of `init`: JSON Schema for the manifest, and reading by serde.
///
/// On fields, `#[init(default = 1, minimum = 0, maximum = 9, min_length = 1, min_items = 1)]`; the default
/// of an enum is a variant, `#[init(default = Mode::Fast)]`. Doc comments become descriptions. Derive no `Deserialize` beside it.
#[proc_macro_derive(InitArgs, attributes(init, serde))]
pub fn derive_init_args(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    finish(init_args::expand(&input))
}

/// Names the test handle of a UDF or state by its path.
#[doc(hidden)]
#[proc_macro]
pub fn handle_of(input: TokenStream) -> TokenStream {
    let mut path = parse_macro_input!(input as syn::Path);
    if let Some(last) = path.segments.last_mut() {
        last.ident = syntax::handle_name(&last.ident);
    }
    path.into_token_stream().into()
}

fn finish(expanded: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    expanded
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}
