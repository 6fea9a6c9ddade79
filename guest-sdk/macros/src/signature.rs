//! What a signature says: parameters, and what comes back.

use syn::spanned::Spanned;
use syn::{FnArg, GenericArgument, Ident, Pat, PathArguments, ReturnType, Signature, Type};

use crate::syntax::error_at;

/// A parameter.
pub enum Parameter {
    /// Passed by the host, or supplied by the SDK.
    Value { name: String, ty: Type },
    /// `&mut Writer<T>`
    Writer(Type),
    /// `&mut StrWriter`
    StrWriter,
    /// `&mut RowErrors`
    Errors,
}

/// The parameters without a receiver.
pub fn parameters(signature: &Signature, batch: bool) -> syn::Result<Vec<Parameter>> {
    let inputs = signature.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(typed) => Some(typed),
        FnArg::Receiver(_) => None,
    });
    let parameters = inputs
        .map(|input| {
            if let Type::ImplTrait(_) = &*input.ty {
                return Err(error_at(
                    input.ty.span(),
                    "the host must know the type: name it, or write a type parameter and `#[udf(types(…))]`",
                ));
            }
            if let Type::Reference(reference) = &*input.ty
                && reference.mutability.is_some()
            {
                return mutable_parameter(&reference.elem, batch);
            }
            match &*input.pat {
                Pat::Ident(pattern) => Ok(Parameter::Value {
                    name: manifest_name(&pattern.ident),
                    ty: (*input.ty).clone(),
                }),
                other => Err(error_at(
                    other.span(),
                    "a parameter of a UDF has a name, which goes into the manifest: write `name: Type`",
                )),
            }
        })
        .collect::<syn::Result<Vec<_>>>()?;
    if !batch
        && let Some(at) = parameters
            .iter()
            .position(|parameter| matches!(parameter, Parameter::StrWriter))
        && at + 1 != parameters.len()
    {
        return Err(error_at(
            signature.inputs.span(),
            "`&mut StrWriter` is the last parameter",
        ));
    }
    let writers = parameters
        .iter()
        .filter(|parameter| matches!(parameter, Parameter::Writer(_)));
    if writers.count() > 1 {
        return Err(error_at(
            signature.inputs.span(),
            "a UDF has one result: keep one `Writer`",
        ));
    }
    Ok(parameters)
}

/// The name without what only Rust needs: `r#` and the underscore of unused parameters.
fn manifest_name(ident: &Ident) -> String {
    let name = ident.to_string();
    let name = name.trim_start_matches("r#");
    match name.trim_start_matches('_') {
        "" => name.to_owned(),
        used => used.to_owned(),
    }
}

fn mutable_parameter(ty: &Type, batch: bool) -> syn::Result<Parameter> {
    let last = match ty {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    };
    if let Some(last) = last {
        match (last.ident.to_string().as_str(), batch) {
            ("Writer", true) => {
                if let PathArguments::AngleBracketed(arguments) = &last.arguments
                    && let Some(GenericArgument::Type(item)) = arguments.args.first()
                {
                    return Ok(Parameter::Writer(item.clone()));
                }
            }
            ("RowErrors", true) => return Ok(Parameter::Errors),
            ("StrWriter", false) => return Ok(Parameter::StrWriter),
            _ => {}
        }
    }
    Err(error_at(
        ty.span(),
        if batch {
            "a batch function takes `&mut Writer<T>` for its result and `&mut RowErrors` for failed rows; everything else comes by value"
        } else {
            "a row function takes its arguments by value or `&`; only `&mut StrWriter` is written to. For columns write `#[udf(batch)]`"
        },
    ))
}

/// The return type, if one is written.
pub fn return_type(signature: &Signature) -> Option<&Type> {
    match &signature.output {
        ReturnType::Default => None,
        ReturnType::Type(_, ty) => Some(ty),
    }
}

/// Refuses what can never be a UDF.
pub fn check(signature: &Signature) -> syn::Result<()> {
    let refused = [
        (
            signature.asyncness.map(|token| token.span()),
            "a UDF runs to its end: remove `async`",
        ),
        (
            signature.unsafety.map(|token| token.span()),
            "the host calls a UDF with whatever values there are: remove `unsafe`",
        ),
        (
            signature.abi.as_ref().map(Spanned::span),
            "the attribute makes the export: remove `extern`",
        ),
    ];
    for (span, message) in refused {
        if let Some(span) = span {
            return Err(error_at(span, message));
        }
    }
    if let Some(constant) = signature.generics.const_params().next() {
        return Err(error_at(
            constant.span(),
            "the host must know the types: a UDF has no const parameters",
        ));
    }
    Ok(())
}

/// The type parameters.
pub fn type_parameters(signature: &Signature) -> Vec<&Ident> {
    signature
        .generics
        .type_params()
        .map(|parameter| &parameter.ident)
        .collect()
}
