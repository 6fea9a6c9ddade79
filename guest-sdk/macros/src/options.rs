//! The options of `#[udf(…)]`.

use proc_macro2::{Span, TokenStream};
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{LitInt, LitStr, Path, Token, Type};

use crate::syntax::error_at;

/// What an author asked for.
#[derive(Default)]
pub struct Options {
    pub batch: bool,
    pub constants: bool,
    pub total: bool,
    pub skip: bool,
    pub name: Option<LitStr>,
    pub volatility: Option<LitStr>,
    pub nulls: Option<LitStr>,
    pub state: Option<LitStr>,
    pub batch_size: Option<LitInt>,
    pub bind: Option<Path>,
    pub types: Vec<Type>,
}

/// Where options stand, which decides which ones there are.
#[derive(Clone, Copy, PartialEq)]
pub enum Place {
    Function,
    Method,
    Impl,
}

impl Options {
    pub fn parse(tokens: TokenStream, place: Place) -> syn::Result<Self> {
        let mut options = Self::default();
        syn::meta::parser(|meta| options.option(&meta, place)).parse2(tokens)?;
        options.check(place)?;
        Ok(options)
    }

    fn option(&mut self, meta: &ParseNestedMeta<'_>, place: Place) -> syn::Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string);
        match (name.as_deref().unwrap_or_default(), place) {
            ("name", _) => {
                let name: LitStr = meta.value()?.parse()?;
                check_name(&name)?;
                self.name = Some(name);
            }
            ("volatility", _) => {
                self.volatility = Some(one_of(meta, &["immutable", "stable", "volatile"])?);
            }
            ("state", Place::Impl) => self.state = Some(one_of(meta, &["resource", "sequence"])?),
            ("batch", Place::Function | Place::Method) => self.batch = true,
            ("constants", Place::Function | Place::Method) => self.constants = true,
            ("total", Place::Function | Place::Method) => self.total = true,
            ("nulls", Place::Function | Place::Method) => {
                self.nulls = Some(one_of(meta, &["propagate", "handle"])?);
            }
            ("batch_size", Place::Function | Place::Method) => {
                let rows: LitInt = meta.value()?.parse()?;
                if rows.base10_parse::<u32>()? == 0 {
                    return Err(error_at(rows.span(), "a batch has at least one row"));
                }
                self.batch_size = Some(rows);
            }
            ("bind", Place::Function | Place::Method) => self.bind = Some(meta.value()?.parse()?),
            ("skip", Place::Method) => self.skip = true,
            ("types", Place::Function) => {
                let list;
                syn::parenthesized!(list in meta.input);
                let types = Punctuated::<Type, Token![,]>::parse_terminated(&list)?;
                if types.is_empty() {
                    return Err(list.error("name at least one type: `types(i32, i64)`"));
                }
                self.types.extend(types);
            }
            (_, Place::Function) => {
                return Err(meta.error(
                    "unknown option; a function has `batch`, `types(…)`, `name`, `volatility`, `nulls`, `batch_size`, `constants`, `total` and `bind`",
                ));
            }
            (_, Place::Method) => {
                return Err(meta.error(
                    "unknown option; a method has `batch`, `name`, `volatility`, `nulls`, `batch_size`, `constants`, `total`, `bind` and `skip`",
                ));
            }
            (_, Place::Impl) => {
                return Err(meta.error(
                    "unknown option; an `impl` block has `name`, `state` and `volatility`; the others go on its methods",
                ));
            }
        }
        Ok(())
    }

    fn check(&self, place: Place) -> syn::Result<()> {
        if place == Place::Impl || self.batch {
            if self.batch && self.total {
                return Err(error_at(
                    Span::call_site(),
                    "a batch function always runs on the values under nulls: leave `total` out",
                ));
            }
            return Ok(());
        }
        if let Some(nulls) = &self.nulls {
            return Err(error_at(
                nulls.span(),
                "a row function takes nulls where its arguments are `Option`: leave `nulls` out, or write `batch`",
            ));
        }
        if let Some(bind) = &self.bind {
            return Err(syn::Error::new_spanned(
                bind,
                "the types of a row function are fixed: write `batch` beside `bind`",
            ));
        }
        Ok(())
    }
}

fn one_of(meta: &ParseNestedMeta<'_>, allowed: &[&str]) -> syn::Result<LitStr> {
    let value: LitStr = meta.value()?.parse()?;
    if allowed.contains(&value.value().as_str()) {
        return Ok(value);
    }
    let allowed: Vec<_> = allowed.iter().map(|text| format!("\"{text}\"")).collect();
    Err(error_at(
        value.span(),
        &format!("write one of {}", allowed.join(", ")),
    ))
}

fn check_name(name: &LitStr) -> syn::Result<()> {
    let text = name.value();
    let starts_well = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let goes_on_well = text
        .chars()
        .all(|character| character.is_ascii_alphanumeric() || character == '_');
    if starts_well && goes_on_well && text.len() <= 128 {
        return Ok(());
    }
    Err(error_at(
        name.span(),
        "a name is a letter or `_`, then letters, digits and `_`, at most 128 in all",
    ))
}
