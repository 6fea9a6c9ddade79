//! `#[udf]` on a function.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{FnArg, ItemFn, Type};

use crate::glue::Udf;
use crate::options::{Options, Place};
use crate::signature::{check, parameters, return_type, type_parameters};
use crate::syntax::{call_symbol, doc_of, error_at, handle_name, sdk, symbol_suffix};

pub fn expand(options: TokenStream, function: ItemFn) -> syn::Result<TokenStream> {
    let options = Options::parse(options, Place::Function)?;
    let signature = &function.sig;
    check(signature)?;
    if let Some(FnArg::Receiver(receiver)) = signature.inputs.first() {
        return Err(error_at(
            receiver.span(),
            "a method is made a UDF by `#[udf]` on its whole `impl` block",
        ));
    }
    let generics = type_parameters(signature);
    if options.types.is_empty() && !generics.is_empty() {
        return Err(error_at(
            signature.generics.span(),
            "the host must know the types: write `#[udf(types(i32, i64))]` with the types this function is for",
        ));
    }
    let parameters = parameters(signature, options.batch)?;
    let name = match &options.name {
        Some(name) => name.value(),
        None => signature.ident.to_string(),
    };
    let ident = &signature.ident;

    let mut entries = Vec::new();
    for types in overloads(&options, generics.len())? {
        let udf = Udf {
            name: name.clone(),
            symbol: call_symbol(&name, ident) + &symbol_suffix(&types),
            doc: doc_of(&function.attrs),
            volatility: match &options.volatility {
                Some(volatility) => volatility.value(),
                None => "immutable".to_owned(),
            },
            options: &options,
            parameters: &parameters,
            returns: return_type(signature),
            function: ident,
            path: if types.is_empty() {
                quote!(#ident)
            } else {
                quote!(#ident::<#(#types),*>)
            },
            state: None,
        };
        let entry = udf.expand()?;
        // The type parameters become names of the overload's types, so that the signature can stay.
        entries.push(quote! {{ #(type #generics = #types;)* #entry }});
    }
    let (sdk, handle, visibility) = (sdk(), handle_name(ident), &function.vis);
    Ok(quote! {
        #function

        #[doc(hidden)]
        #[allow(non_upper_case_globals, dead_code, unused_qualifications, clippy::all, clippy::pedantic)]
        #visibility const #handle: &[#sdk::Entry] = &[#(#entries),*];
    })
}

/// The types of each overload: one empty list for a function without type parameters.
fn overloads(options: &Options, parameters: usize) -> syn::Result<Vec<Vec<Type>>> {
    if options.types.is_empty() {
        return Ok(vec![Vec::new()]);
    }
    let overload = |ty: &Type| {
        let types = match ty {
            Type::Tuple(tuple) if parameters != 1 => tuple.elems.iter().cloned().collect(),
            other => vec![other.clone()],
        };
        if types.len() == parameters {
            return Ok(types);
        }
        Err(error_at(
            ty.span(),
            &format!(
                "the function has {parameters} type parameters: write `types(…)` with that many types per overload, in parentheses when more than one"
            ),
        ))
    };
    options.types.iter().map(overload).collect()
}
