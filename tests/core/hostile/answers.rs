//! What a guest answers: structs, values, sizes.

use super::*;

#[test]
fn the_honest_answer_is_believed() {
    let array =
        tell(json!({"format":"l"}), HONEST, &[honest_buffers()]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        array.as_ref(),
        &Int64Array::from(vec![0, 0, 0]) as &dyn Array
    );
}

// Points 10 and 12: lengths, offsets, pointers, null counts.
#[test]
fn lies_about_the_struct_are_found() {
    let l = || json!({"format":"l"});
    for length in [-1, 0, 1, 2, 4, 6, 1 << 61, i64::MAX, i64::MIN] {
        contract(tell(l(), Lie { length, ..HONEST }, &[honest_buffers()]));
    }
    for offset in [-1, 1 << 61, i64::MAX, i64::MAX - 2, 1 << 20, i64::MIN] {
        contract(tell(l(), Lie { offset, ..HONEST }, &[honest_buffers()]));
    }
    for null_count in [-2, 1, 3, 4, i64::MAX, i64::MIN] {
        contract(tell(
            l(),
            Lie {
                null_count,
                ..HONEST
            },
            &[honest_buffers()],
        ));
    }
    for n_buffers in [-1, 0, 1, 3, i64::MAX] {
        contract(tell(
            l(),
            Lie {
                n_buffers,
                ..HONEST
            },
            &[honest_buffers()],
        ));
    }
    for n_children in [-1, 1, i64::MAX] {
        contract(tell(
            l(),
            Lie {
                n_children,
                ..HONEST
            },
            &[honest_buffers()],
        ));
    }
    let end = MEMORY as u32;
    for pointer in [end, end - 1, end - 23, u32::MAX, u32::MAX - 7] {
        contract(tell(l(), HONEST, &[(2048, words(&[0, pointer]))]));
        contract(tell(
            l(),
            Lie {
                buffers: pointer,
                ..HONEST
            },
            &[],
        ));
    }
    // An unaligned pointer is only odd.
    assert!(tell(l(), HONEST, &[(2048, words(&[0, 4097]))]).is_ok());
    // Bits say one null, the count says none, or the other way about.
    for (null_count, bits) in [(0, 0b101_u8), (2, 0b101), (1, 0b111)] {
        contract(tell(
            l(),
            Lie {
                null_count,
                ..HONEST
            },
            &[(2048, words(&[3000, 4096])), (3000, vec![bits])],
        ));
    }
    assert!(
        tell(
            l(),
            Lie {
                null_count: -1,
                ..HONEST
            },
            &[(2048, words(&[3000, 4096])), (3000, vec![0b101])]
        )
        .is_ok()
    );
    let error = tell(
        json!({"format":"l","nullable":false}),
        Lie {
            null_count: -1,
            ..HONEST
        },
        &[(2048, words(&[3000, 4096])), (3000, vec![0b101])],
    );
    assert!(
        error
            .expect_err("a null in a type without")
            .to_string()
            .contains("declared without nulls and has 1")
    );
}

// Point 11: offsets, text, views, keys, unions, runs, children. Point 12: digits and times.
#[test]
fn lies_about_values_are_found() {
    let text = |offsets: &[u32], bytes: &[u8]| {
        tell(
            json!({"format":"u"}),
            Lie {
                n_buffers: 3,
                ..HONEST
            },
            &[
                (2048, words(&[0, 3000, 4000])),
                (3000, words(offsets)),
                (4000, bytes.to_vec()),
            ],
        )
    };
    assert!(text(&[0, 1, 1, 3], b"abc").is_ok());
    assert!(
        text(&[1, 1, 2, 3], b"abc").is_ok(),
        "offsets may begin anywhere"
    );
    for offsets in [
        [0, 2, 1, 3],
        [0, 1, 2, u32::MAX],
        [u32::MAX, 0, 1, 2],
        [0, 0, 0, 1 << 30],
        [3, 2, 1, 0],
        [0, 9, 9, 3],
    ] {
        contract(text(&offsets, b"abc"));
    }
    contract(text(&[0, 1, 2, 3], &[0xff, b'a', b'b']));
    contract(text(&[0, 1, 2, 2], "é".as_bytes()));

    let view = |view: [u32; 4], lengths: &[i64], extra: u32| {
        let mut views = words(&view);
        views.extend([0; 32]);
        let table = if lengths.is_empty() {
            vec![0, 3000, 3200]
        } else {
            vec![0, 3000, extra, 3200]
        };
        let lengths: Vec<u8> = lengths.iter().flat_map(|l| l.to_le_bytes()).collect();
        let n_buffers = table.len() as i64;
        tell(
            json!({"format":"vu"}),
            Lie {
                n_buffers,
                ..HONEST
            },
            &[
                (2048, words(&table)),
                (3000, views),
                (3200, lengths),
                (4000, b"thirteen byte".to_vec()),
            ],
        )
    };
    let prefix = u32::from_le_bytes(*b"thir");
    assert!(view([13, prefix, 0, 0], &[13], 4000).is_ok());
    contract(view([13, prefix, 1, 0], &[13], 4000));
    contract(view([13, prefix, 0, 1], &[13], 4000));
    contract(view([13, prefix + 1, 0, 0], &[13], 4000));
    contract(view([13, prefix, 0, 0], &[12], 4000));
    contract(view([13, prefix, 0, 0], &[-1], 4000));
    contract(view([13, prefix, 0, 0], &[i64::MAX], 4000));
    contract(view([13, prefix, 0, 0], &[13], MEMORY as u32 - 4));
    contract(view([u32::MAX, 0, 0, 0], &[13], 4000));
    contract(view([1, 0x0100_0061, 0, 0], &[], 0));
    contract(view([1, 0xff, 0, 0], &[], 0));
    contract(tell(
        json!({"format":"vu"}),
        Lie {
            n_buffers: i64::MAX,
            ..HONEST
        },
        &[honest_buffers()],
    ));

    let keys = |keys: [i8; 3], values: i64| {
        let dictionary = Lie {
            length: values,
            buffers: 2100,
            ..HONEST
        };
        let bytes: Vec<u8> = keys.iter().map(|k| *k as u8).collect();
        let mut data = vec![
            (2048, words(&[0, 3000])),
            (3000, bytes),
            (2100, words(&[0, 4096])),
            (2200, dictionary.bytes()),
        ];
        data.push((5000, vec![0]));
        tell(
            json!({"format":"c","dictionary":{"format":"l"}}),
            Lie {
                dictionary: 2200,
                ..HONEST
            },
            &data,
        )
    };
    assert!(keys([0, 1, 1], 2).is_ok());
    contract(keys([0, 2, 1], 2));
    contract(keys([0, -1, 1], 2));
    contract(keys([0, 0, 0], 0));
    contract(keys([0, 0, 0], 1 << 50));

    let union = |ids: [u8; 3], offsets: [u32; 3], child: i64| {
        let child = Lie {
            length: child,
            buffers: 2100,
            ..HONEST
        };
        let data = [
            (2048, words(&[3000, 3100])),
            (3000, ids.to_vec()),
            (3100, words(&offsets)),
            (2100, words(&[0, 4096])),
            (2200, child.bytes()),
            (2300, words(&[2200])),
        ];
        tell(
            json!({"format":"+ud:5","children":[{"format":"l"}]}),
            Lie {
                n_children: 1,
                children: 2300,
                ..HONEST
            },
            &data,
        )
    };
    assert!(union([5, 5, 5], [0, 1, 2], 3).is_ok());
    contract(union([5, 5, 4], [0, 1, 2], 3));
    contract(union([5, 5, 0xff], [0, 1, 2], 3));
    contract(union([5, 5, 5], [0, 1, 3], 3));
    contract(union([5, 5, 5], [0, 1, u32::MAX], 3));

    let runs = |ends: [u32; 2], lengths: (i64, i64)| {
        let ends_array = Lie {
            length: lengths.0,
            buffers: 2100,
            ..HONEST
        };
        let values = Lie {
            length: lengths.1,
            buffers: 2150,
            ..HONEST
        };
        let data = [
            (2100, words(&[0, 3000])),
            (2150, words(&[0, 4096])),
            (2200, ends_array.bytes()),
            (2300, values.bytes()),
            (2400, words(&[2200, 2300])),
            (3000, words(&ends)),
        ];
        let result = json!({"format":"+r","children":[{"name":"run_ends","format":"i","nullable":false},{"name":"values","format":"l"}]});
        tell(
            result,
            Lie {
                n_buffers: 0,
                n_children: 2,
                children: 2400,
                buffers: 0,
                ..HONEST
            },
            &data,
        )
    };
    assert!(runs([1, 3], (2, 2)).is_ok());
    contract(runs([3, 1], (2, 2)));
    contract(runs([0, 3], (2, 2)));
    contract(runs([1, 2], (2, 2)));
    contract(runs([u32::MAX, 3], (2, 2)));
    contract(runs([1, 3], (2, 1)));

    let list = |offsets: [u32; 4], child: i64| {
        let child = Lie {
            length: child,
            buffers: 2100,
            ..HONEST
        };
        let data = [
            (2048, words(&[0, 3000])),
            (3000, words(&offsets)),
            (2100, words(&[0, 4096])),
            (2200, child.bytes()),
            (2300, words(&[2200])),
        ];
        tell(
            json!({"format":"+l","children":[{"format":"l"}]}),
            Lie {
                n_children: 1,
                children: 2300,
                ..HONEST
            },
            &data,
        )
    };
    assert!(list([0, 1, 2, 3], 3).is_ok());
    contract(list([0, 1, 2, 4], 3));
    contract(list([0, 2, 1, 3], 3));
    contract(list([0, 1, 2, 3], -1));
    // A struct that is its own child: the walk follows the type.
    contract(tell(
        json!({"format":"+s","children":[{"format":"+s","children":[{"format":"l"}]}]}),
        Lie {
            n_buffers: 1,
            n_children: 1,
            buffers: 2048,
            children: 2300,
            ..HONEST
        },
        &[honest_buffers(), (2300, words(&[AT]))],
    ));
    // Elements without bytes cost nothing to claim.
    let huge = Lie {
        length: i64::from(i32::MAX),
        n_buffers: 0,
        buffers: 0,
        ..HONEST
    };
    contract(tell(
        json!({"format":"+l","children":[{"format":"n"}]}),
        Lie {
            n_children: 1,
            children: 2300,
            ..HONEST
        },
        &[
            (2048, words(&[0, 3000])),
            (3000, words(&[0, 1, 2, i32::MAX as u32])),
            (2200, huge.bytes()),
            (2300, words(&[2200])),
        ],
    ));

    contract(tell(
        json!({"format":"d:3,0"}),
        HONEST,
        &[honest_buffers(), (4096, 1000_i128.to_le_bytes().to_vec())],
    ));
    contract(tell(
        json!({"format":"d:3,0"}),
        HONEST,
        &[honest_buffers(), (4096, i128::MIN.to_le_bytes().to_vec())],
    ));
    contract(tell(
        json!({"format":"tts"}),
        HONEST,
        &[honest_buffers(), (4096, 86_400_i32.to_le_bytes().to_vec())],
    ));
    contract(tell(
        json!({"format":"ttn"}),
        HONEST,
        &[honest_buffers(), (4096, (-1_i64).to_le_bytes().to_vec())],
    ));
}

#[test]
fn the_total_that_is_copied_out_is_limited() {
    // Each of 256 children is the same megabyte.
    let field = json!({"format":"w:300000"});
    let children: Vec<Value> = (0..256)
        .map(|i| {
            let mut f = field.clone();
            f["name"] = json!(format!("c{i}"));
            f
        })
        .collect();
    let mut record = record("f");
    record["result"] = json!({"format":"+s","children":children});
    let lie = Lie {
        n_buffers: 1,
        n_children: 256,
        children: 5000,
        ..HONEST
    };
    let child = Lie {
        buffers: 2048,
        ..HONEST
    };
    let body = format!(
        r#"(data (i32.const {AT}) "{}") (data (i32.const 2200) "{}") (data (i32.const 2048) "{}") (data (i32.const 5000) "{}")
        (func (export "f") (param $frame i32) (result i32)
          (drop (memory.grow (i32.const 32)))
          (memory.copy (i32.load offset=32 (local.get $frame)) (i32.const {AT}) (i32.const 64))
          (i32.const 0))"#,
        escape(&lie.bytes()),
        escape(&child.bytes()),
        escape(&words(&[0, 8192])),
        escape(&words(&[2200; 256])),
    );
    let error = call(&load("liar", &wat(&[record], &body)), 3).expect_err("230 MB were copied");
    assert!(
        matches!(*error.fault, Fault::OutputTooLarge { .. }),
        "{error}"
    );
    assert_eq!(error.class(), ErrorClass::Limit);
}
