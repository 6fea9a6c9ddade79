//! `#[derive(InitArgs)]`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Expr, ExprUnary, Field, Fields, Lit, LitInt, UnOp};

use crate::glue::optional;
use crate::syntax::{doc_of, error_at, sdk};

pub fn expand(input: &DeriveInput) -> syn::Result<TokenStream> {
    if let Some(parameter) = input.generics.params.first() {
        return Err(error_at(
            parameter.span(),
            "init arguments have one type: remove the parameters",
        ));
    }
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => object(input, fields.named.iter().collect()),
            Fields::Unit => object(input, Vec::new()),
            Fields::Unnamed(_) => Err(error_at(
                input.ident.span(),
                "init arguments are a JSON object: write `struct Name { field: Type }`",
            )),
        },
        Data::Enum(data) => {
            let mut names = Vec::new();
            for variant in &data.variants {
                if !matches!(variant.fields, Fields::Unit) {
                    return Err(error_at(
                        variant.span(),
                        "the manifest can only list plain variants: remove the fields of this one",
                    ));
                }
                refuse_serde(&variant.attrs)?;
                let rename = FieldOptions::parse(&variant.attrs)?.rename;
                names.push(rename.unwrap_or_else(|| variant.ident.to_string()));
            }
            let renaming = names.iter().map(|name| quote!(#[serde(rename = #name)]));
            let variants = data.variants.iter().map(|variant| &variant.ident);
            let sdk = sdk();
            let kind = quote!(#sdk::InitKind::Enum(&[#(#names),*]));
            let json = names.iter().map(|name| json_string(name));
            let ident = &input.ident;
            let own: Vec<_> = data.variants.iter().map(|variant| &variant.ident).collect();
            let as_json = quote! {
                impl #ident {
                    /// The variant in the manifest, for defaults.
                    #[doc(hidden)]
                    #[must_use]
                    pub const fn __init_json(&self) -> &'static str {
                        match self {
                            #(Self::#own => #json,)*
                        }
                    }
                }
            };
            Ok(finish(
                input,
                &quote!(enum),
                &quote!({ #(#renaming #variants,)* }),
                &kind,
                &[as_json],
            ))
        }
        Data::Union(_) => Err(error_at(
            input.ident.span(),
            "init arguments are a JSON object: write `struct Name { field: Type }`",
        )),
    }
}

fn object(input: &DeriveInput, fields: Vec<&Field>) -> syn::Result<TokenStream> {
    let sdk = sdk();
    let (mut shadow, mut properties, mut defaults) = (vec![], vec![], vec![]);
    for field in fields {
        let Some(ident) = &field.ident else { continue };
        let ty = &field.ty;
        refuse_serde(&field.attrs)?;
        let options = FieldOptions::parse(&field.attrs)?;
        let name = options
            .rename
            .clone()
            .unwrap_or_else(|| ident.to_string().trim_start_matches("r#").to_owned());
        let doc = doc_of(&field.attrs);
        let default = optional(options.default.as_ref().map(|(json, _)| quote!(#json)));
        let serde_default = options.default.as_ref().map(|(_, value)| {
            let function = format_ident!("default_of_{}", name_for_function(&name));
            defaults.push(quote!(fn #function() -> #ty { #value }));
            let function = function.to_string();
            quote!(#[serde(default = #function)])
        });
        shadow.push(quote!(#serde_default #[serde(rename = #name)] #ident: #ty));
        let minimum = options.minimum.map(|json| quote!(minimum: Some(#json),));
        let maximum = options.maximum.map(|json| quote!(maximum: Some(#json),));
        let min_length = options
            .min_length
            .map(|least| quote!(min_length: Some(#least),));
        let min_items = options
            .min_items
            .map(|least| quote!(min_items: Some(#least),));
        properties.push(quote! {
            (#name, #sdk::InitSchema {
                description: #doc,
                default: #default,
                #minimum #maximum #min_length #min_items
                ..<#ty as ::wasmill_guest::InitArgs>::SCHEMA
            })
        });
    }
    let kind = quote!(#sdk::InitKind::Object(&[#(#properties),*]));
    Ok(finish(
        input,
        &quote!(struct),
        &quote!({ #(#shadow,)* }),
        &kind,
        &defaults,
    ))
}

/// The impls. serde reads a shadow of the type, so that authors need no serde of their own.
fn finish(
    input: &DeriveInput,
    keyword: &TokenStream,
    body: &TokenStream,
    kind: &TokenStream,
    defaults: &[TokenStream],
) -> TokenStream {
    let (sdk, ident, doc) = (sdk(), &input.ident, doc_of(&input.attrs));
    let name = ident.to_string();
    let serde_crate = "::wasmill_guest::__private::serde";
    quote! {
        #[automatically_derived]
        #[allow(dead_code, unused_qualifications, clippy::all, clippy::pedantic)]
        const _: () = {
            #(#defaults)*

            #[derive(#sdk::serde::Deserialize)]
            #[serde(crate = #serde_crate, remote = #name)]
            #keyword Shadow #body

            impl<'de> #sdk::serde::Deserialize<'de> for #ident {
                fn deserialize<D: #sdk::serde::Deserializer<'de>>(
                    deserializer: D,
                ) -> ::std::result::Result<Self, D::Error> {
                    Shadow::deserialize(deserializer)
                }
            }

            impl ::wasmill_guest::InitArgs for #ident {
                const SCHEMA: #sdk::InitSchema = #sdk::InitSchema {
                    description: #doc,
                    ..#sdk::InitSchema::new(#kind)
                };
            }
        };
    }
}

fn name_for_function(name: &str) -> String {
    name.replace(|character: char| !character.is_ascii_alphanumeric(), "_")
}

/// The manifest would not know what serde does.
fn refuse_serde(attributes: &[Attribute]) -> syn::Result<()> {
    match attributes
        .iter()
        .find(|attribute| attribute.path().is_ident("serde"))
    {
        None => Ok(()),
        Some(attribute) => Err(error_at(
            attribute.span(),
            "the manifest is made from `#[init(…)]`: write `#[init(rename = \"…\")]` or `#[init(default = …)]`",
        )),
    }
}

/// `#[init(…)]` of a field or variant.
#[derive(Default)]
struct FieldOptions {
    rename: Option<String>,
    /// As JSON, an expression that gives it, and as Rust.
    default: Option<(TokenStream, TokenStream)>,
    minimum: Option<String>,
    maximum: Option<String>,
    min_length: Option<LitInt>,
    min_items: Option<LitInt>,
}

impl FieldOptions {
    fn parse(attributes: &[Attribute]) -> syn::Result<Self> {
        let mut options = Self::default();
        for attribute in attributes {
            if !attribute.path().is_ident("init") {
                continue;
            }
            attribute.parse_nested_meta(|meta| {
                let name = meta.path.get_ident().map(ToString::to_string);
                match name.as_deref().unwrap_or_default() {
                    "rename" => {
                        options.rename = Some(meta.value()?.parse::<syn::LitStr>()?.value());
                    }
                    "default" => options.default = Some(default_value(&meta.value()?.parse()?)?),
                    "minimum" => options.minimum = Some(json_of(&meta.value()?.parse()?)?),
                    "maximum" => options.maximum = Some(json_of(&meta.value()?.parse()?)?),
                    "min_length" => options.min_length = Some(meta.value()?.parse()?),
                    "min_items" => options.min_items = Some(meta.value()?.parse()?),
                    _ => {
                        return Err(meta.error(
                            "unknown option; a field has `default`, `rename`, `minimum`, `maximum`, `min_length` and `min_items`",
                        ));
                    }
                }
                Ok(())
            })?;
        }
        Ok(options)
    }
}

/// A default as JSON and as Rust.
fn default_value(value: &Expr) -> syn::Result<(TokenStream, TokenStream)> {
    // A variant knows by itself what the manifest calls it.
    if let Expr::Path(variant) = value
        && variant.path.segments.len() > 1
    {
        return Ok((quote!(#variant.__init_json()), quote!(#variant)));
    }
    let json = json_of(value)?;
    Ok((quote!(#json), rust_of(value)))
}

fn rust_of(value: &Expr) -> TokenStream {
    match value {
        Expr::Array(items) => {
            let items = items.elems.iter().map(rust_of);
            quote!(::std::vec![#(#items),*])
        }
        Expr::Lit(literal) if matches!(literal.lit, Lit::Str(_)) => {
            quote!(::std::string::String::from(#literal))
        }
        other => quote!(#other),
    }
}

/// A literal as JSON.
fn json_of(value: &Expr) -> syn::Result<String> {
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Bool(value) => Ok(value.value.to_string()),
            Lit::Int(value) => Ok(value.base10_digits().to_owned()),
            Lit::Float(value) => {
                let digits = value.base10_digits();
                Ok(if digits.ends_with('.') {
                    format!("{digits}0")
                } else {
                    digits.to_owned()
                })
            }
            Lit::Str(value) => Ok(json_string(&value.value())),
            other => Err(error_at(other.span(), NO_LITERAL)),
        },
        Expr::Unary(ExprUnary {
            op: UnOp::Neg(_),
            expr,
            ..
        }) => Ok(format!("-{}", json_of(expr)?)),
        Expr::Array(items) => {
            let items = items.elems.iter().map(json_of);
            Ok(format!(
                "[{}]",
                items.collect::<syn::Result<Vec<_>>>()?.join(",")
            ))
        }
        other => Err(error_at(other.span(), NO_LITERAL)),
    }
}

const NO_LITERAL: &str = "the manifest needs the value itself: write a number, `true`, `false`, a string, a list of such, or a variant, as in `Mode::Fast`";

fn json_string(text: &str) -> String {
    let mut json = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            control if u32::from(control) < 0x20 => {
                json.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => json.push(other),
        }
    }
    json.push('"');
    json
}
