//! Arrow files and streams in and out: what other writers made, what nobody should have made, and
//! dictionaries, which the two forms treat differently.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int8Array, Int64Array, ListArray, RecordBatch,
    StringArray, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Int8Type, Int32Type};

use crate::cli::{Form, Workplace, batch, column, data, module, read_arrow, write_arrow};

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|e| e.expect("an entry").path())
        .filter(|p| extension.is_empty() || p.extension().is_some_and(|e| e == extension))
        .collect();
    files.sort();
    files
}

fn one(arrays: &[ArrayRef], data_type: &DataType) -> ArrayRef {
    match arrays {
        [] => arrow::array::new_empty_array(data_type),
        arrays => concat(&arrays.iter().map(AsRef::as_ref).collect::<Vec<_>>())
            .expect("arrays of one type"),
    }
}

/// Every column of a file through identity: equal in type, metadata and values.
fn identity_keeps(path: &Path, form: Form, input_format: &str) {
    let failed = changed_by_identity(path, form, input_format);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The columns that do not come back as they were, and what became of them.
fn changed_by_identity(path: &Path, form: Form, input_format: &str) -> Vec<String> {
    let mut failed = Vec::new();
    let (schema, batches) =
        read_arrow(path, form).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let workplace = Workplace::new();
    for field in schema.fields() {
        let name = field.name();
        let place = format!("{name} of {}", path.display());
        let out = workplace.path("out.arrow");
        let ended = workplace.wasmill([
            "run".as_ref(),
            module("identity").as_os_str(),
            "identity".as_ref(),
            "-i".as_ref(),
            path.as_os_str(),
            "--input-format".as_ref(),
            input_format.as_ref(),
            "--arg".as_ref(),
            format!("x={name}").as_ref(),
            "--as".as_ref(),
            "y".as_ref(),
            "--select".as_ref(),
            "y".as_ref(),
            "-o".as_ref(),
            out.as_os_str(),
        ]);
        if ended.code() != 0 {
            failed.push(format!("{place}: {}", ended.stderr()));
            continue;
        }
        let (result_schema, result) = read_arrow(&out, Form::File).expect("an Arrow file");
        let [result_field] = result_schema.fields().as_ref() else {
            panic!("one column for {place}")
        };
        let (expected, found) = (
            one(&column(&batches, name), field.data_type()),
            one(&column(&result, "y"), field.data_type()),
        );
        let expected_field = field
            .as_ref()
            .clone()
            .with_name("y")
            .with_nullable(result_field.is_nullable());
        if result_field.as_ref() != &expected_field {
            failed.push(format!(
                "{place}: {expected_field:?} became {result_field:?}"
            ));
        } else if expected.as_ref() != found.as_ref() {
            failed.push(format!("{place}: {expected:?} became {found:?}"));
        }
    }
    failed
}

fn has_duplicate_names(path: &Path, form: Form) -> bool {
    let (schema, _) = read_arrow(path, form).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

fn golden(form: Form, extension: &str, input_format: &str) {
    let Some(folder) = data("arrow-golden") else {
        return;
    };
    let mut failed = Vec::new();
    for writer in files(&folder, "") {
        for path in files(&writer, extension) {
            if !has_duplicate_names(&path, form) {
                failed.extend(changed_by_identity(&path, form, input_format));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_column_of_the_golden_streams_comes_back_unchanged() {
    golden(Form::Stream, "stream", "arrow-stream");
}

#[test]
fn every_column_of_the_golden_files_comes_back_unchanged() {
    golden(Form::File, "arrow_file", "arrow");
}

#[test]
fn duplicate_field_names_are_refused_by_name() {
    let Some(folder) = data("arrow-golden") else {
        return;
    };
    let workplace = Workplace::new();
    for writer in files(&folder, "") {
        let path = writer.join("generated_duplicate_fieldnames.stream");
        let said = workplace
            .wasmill([
                "run".as_ref(),
                module("identity").as_os_str(),
                "identity".as_ref(),
                "-i".as_ref(),
                path.as_os_str(),
                "-o".as_ref(),
                "o.arrow".as_ref(),
            ])
            .failure(3);
        assert!(said.contains("duplicate field names"), "{said}");
    }
}

#[test]
fn corrupt_streams_end_with_an_error_of_decoding() {
    let Some(folder) = data("arrow-corrupt") else {
        return;
    };
    let workplace = Workplace::new();
    for path in files(&folder, "") {
        let run = |parameter: &str| {
            workplace.wasmill([
                "run".as_ref(),
                module("identity").as_os_str(),
                "identity".as_ref(),
                "-i".as_ref(),
                path.as_os_str(),
                "--input-format".as_ref(),
                "arrow-stream".as_ref(),
                "--arg".as_ref(),
                parameter.as_ref(),
                "--as".as_ref(),
                "y".as_ref(),
                "--select".as_ref(),
                "y".as_ref(),
                "-o".as_ref(),
                "out.arrow".as_ref(),
            ])
        };
        // The first column's name, where the schema can be read at all.
        let first = schema_of(&path)
            .and_then(|s| s.fields().first().map(|f| f.name().replace('\0', "")))
            .unwrap_or_default();
        let ended = run(&format!("x={first}"));
        let said = ended.stderr();
        assert!(!said.contains("panicked"), "{}: {said}", path.display());
        match ended.code() {
            3 => assert!(
                workplace.files().is_empty(),
                "{}: {:?} are left",
                path.display(),
                workplace.files()
            ),
            0 => {
                let (_, batches) =
                    read_arrow(&workplace.path("out.arrow"), Form::File).expect("an Arrow file");
                assert!(
                    batches.iter().all(|b| b.num_rows() == 0),
                    "{}: rows were read",
                    path.display()
                );
                std::fs::remove_file(workplace.path("out.arrow")).expect("removed");
            }
            code => panic!("{}: exit code {code}: {said}", path.display()),
        }
    }
}

fn schema_of(path: &Path) -> Option<arrow::datatypes::SchemaRef> {
    let file = std::fs::File::open(path).ok()?;
    let quiet = std::panic::catch_unwind(|| {
        arrow::ipc::reader::StreamReader::try_new(file, None)
            .map(|r| r.schema())
            .ok()
    });
    quiet.ok().flatten()
}

#[test]
fn big_endian_streams_and_files_are_refused_by_name() {
    let workplace = Workplace::new();
    let rows = batch(vec![("x", Arc::new(Int64Array::from(vec![1, 2, 3])))]);
    for (form, name) in [(Form::Stream, "in.arrows"), (Form::File, "in.arrow")] {
        let path = workplace.path(name);
        write_arrow(&path, form, std::slice::from_ref(&rows));
        let mut bytes = std::fs::read(&path).expect("a file");
        make_big_endian(&mut bytes);
        std::fs::write(&path, bytes).expect("a file");
        let said = workplace
            .wasmill([
                "run".as_ref(),
                module("identity").as_os_str(),
                "identity".as_ref(),
                "-i".as_ref(),
                name.as_ref(),
                "-o".as_ref(),
                "out.arrow".as_ref(),
            ])
            .failure(3);
        assert!(said.contains("big-endian"), "{said}");
    }
}

/// Sets the byte order of every schema in the file to big: arrow-rs cannot write such files.
fn make_big_endian(bytes: &mut [u8]) {
    for at in (0..bytes.len()).step_by(4) {
        // Message: version, header type, header. Footer: version, schema.
        let is_message = arrow::ipc::root_as_message(&bytes[at..])
            .ok()
            .is_some_and(|m| m.header_as_schema().is_some());
        let is_footer = !is_message
            && arrow::ipc::root_as_footer(&bytes[at..])
                .ok()
                .is_some_and(|f| f.schema().is_some());
        if is_message || is_footer {
            patch_endianness(bytes, at, if is_message { 2 } else { 1 });
        }
    }
}

/// The schema's `endianness` is left out where it has its default, little. Its entry in the table of
/// fields is pointed at any number that reads 1, big.
fn patch_endianness(bytes: &mut [u8], at: usize, schema_field: usize) {
    let u16_at =
        |bytes: &[u8], i: usize| u16::from_le_bytes(bytes[i..i + 2].try_into().expect("two bytes"));
    let follow = |bytes: &[u8], i: usize| {
        i + u32::from_le_bytes(bytes[i..i + 4].try_into().expect("four bytes")) as usize
    };
    let vtable = |bytes: &[u8], table: usize| {
        let back = i32::from_le_bytes(bytes[table..table + 4].try_into().expect("four bytes"));
        usize::try_from(table as i64 - i64::from(back)).expect("inside")
    };
    let root = follow(bytes, at);
    let entry = vtable(bytes, root) + 4 + 2 * schema_field;
    let schema = follow(bytes, root + usize::from(u16_at(bytes, entry)));
    let one = (4..bytes.len() - schema - 1)
        .step_by(2)
        .find(|o| u16_at(bytes, schema + o) == 1)
        .expect("a 1 somewhere");
    let endianness = vtable(bytes, schema) + 4;
    bytes[endianness..endianness + 2]
        .copy_from_slice(&u16::try_from(one).expect("small").to_le_bytes());
}

/// Batches whose dictionaries have nothing in common.
fn replaced_dictionaries() -> Vec<RecordBatch> {
    [["a", "b"], ["b", "c"], ["c", "a"]]
        .iter()
        .map(|words| {
            let plain: DictionaryArray<Int8Type> = words
                .iter()
                .map(|w| Some(*w))
                .chain([None, Some(words[0])])
                .collect();
            let items: DictionaryArray<Int32Type> = words.iter().copied().collect();
            let items: ArrayRef = Arc::new(items);
            let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
            let lists = ListArray::new(
                Arc::clone(&field),
                OffsetBuffer::from_lengths([1, 0, 1, 0]),
                items,
                None,
            );
            let inside = StructArray::from(vec![(
                Arc::new(Field::new("word", plain.data_type().clone(), true)),
                Arc::new(plain.clone()) as ArrayRef,
            )]);
            batch(vec![
                ("plain", Arc::new(plain)),
                ("lists", Arc::new(lists)),
                ("inside", Arc::new(inside)),
            ])
        })
        .collect()
}

#[test]
fn replaced_dictionaries_are_unified_in_files_and_kept_in_streams() {
    let batches = replaced_dictionaries();
    let workplace = Workplace::new();
    let input = workplace.path("in.arrows");
    write_arrow(&input, Form::Stream, &batches);
    identity_keeps(&input, Form::Stream, "arrow-stream");
    for (name, form) in [("out.arrow", Form::File), ("out.arrows", Form::Stream)] {
        workplace
            .wasmill([
                "run".as_ref(),
                module("identity").as_os_str(),
                "identity".as_ref(),
                "-i".as_ref(),
                "in.arrows".as_ref(),
                "--arg".as_ref(),
                "x=plain".as_ref(),
                "-o".as_ref(),
                name.as_ref(),
                "--batch-size".as_ref(),
                "3".as_ref(),
            ])
            .success();
        let (schema, result) = read_arrow(&workplace.path(name), form).expect("readable");
        for field in schema.fields() {
            let source = if field.name() == "identity" {
                "plain"
            } else {
                field.name()
            };
            let expected = one(&column(&batches, source), field.data_type());
            assert!(
                expected.as_ref()
                    == one(&column(&result, field.name()), field.data_type()).as_ref(),
                "{} in {name}",
                field.name()
            );
        }
    }
    // What was written is read again.
    workplace
        .wasmill([
            "run".as_ref(),
            module("identity").as_os_str(),
            "identity".as_ref(),
            "-i".as_ref(),
            "out.arrow".as_ref(),
            "--arg".as_ref(),
            "x=lists".as_ref(),
            "--as".as_ref(),
            "again".as_ref(),
            "-o".as_ref(),
            "again.arrow".as_ref(),
        ])
        .success();
}

#[test]
fn too_many_dictionary_values_for_the_keys_are_an_error_that_says_what_to_do() {
    let batches: Vec<RecordBatch> = (0..3)
        .map(|n| {
            let words: Vec<String> = (0..100).map(|i| format!("{n} {i}")).collect();
            let keys = Int8Array::from_iter_values(0..100);
            let array = DictionaryArray::<Int8Type>::new(keys, Arc::new(StringArray::from(words)));
            batch(vec![("x", Arc::new(array))])
        })
        .collect();
    let workplace = Workplace::new();
    write_arrow(&workplace.path("in.arrows"), Form::Stream, &batches);
    let run = |out: &str| {
        workplace.wasmill([
            "run".as_ref(),
            module("identity").as_os_str(),
            "identity".as_ref(),
            "-i".as_ref(),
            "in.arrows".as_ref(),
            "--batch-size".as_ref(),
            "100".as_ref(),
            "-o".as_ref(),
            out.as_ref(),
        ])
    };
    let said = run("out.arrow").failure(3);
    assert!(
        said.contains("column `x`") && said.contains("stream"),
        "{said}"
    );
    run("out.arrows").success();
    let (_, result) = read_arrow(&workplace.path("out.arrows"), Form::Stream).expect("a stream");
    let found: usize = result
        .iter()
        .map(|b| b.column(0).as_dictionary::<Int8Type>().len())
        .sum();
    assert_eq!(found, 300);
}

#[test]
fn a_stream_without_an_end_mark_is_read_and_one_cut_short_is_not() {
    let workplace = Workplace::new();
    let rows = batch(vec![("x", Arc::new(Int64Array::from_iter_values(0..1000)))]);
    write_arrow(
        &workplace.path("whole.arrows"),
        Form::Stream,
        std::slice::from_ref(&rows),
    );
    let bytes = std::fs::read(workplace.path("whole.arrows")).expect("a file");
    workplace.file("unended.arrows", &bytes[..bytes.len() - 8]);
    workplace.file("cut.arrows", &bytes[..bytes.len() - 100]);
    let run = |name: &str| {
        workplace.wasmill([
            "run".as_ref(),
            module("identity").as_os_str(),
            "identity".as_ref(),
            "-i".as_ref(),
            name.as_ref(),
            "-o".as_ref(),
            "out.csv".as_ref(),
        ])
    };
    run("unended.arrows").success();
    let said = run("cut.arrows").failure(3);
    assert!(said.contains("cut.arrows cannot be decoded"), "{said}");
}
