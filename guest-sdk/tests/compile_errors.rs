//! Wrong use does not compile, and the message says what to write instead.

#[test]
#[cfg_attr(miri, ignore = "runs the compiler")]
fn wrong_use_is_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
