//! Overloads, lists, channels, dictionaries.

use super::*;

#[test]
fn a_tokenizer_takes_its_vocabulary_once_and_gives_lists() {
    let module = module("tokenize");
    let encode = bind(
        &module,
        "encode",
        &[Field::new("text", DataType::Utf8, true)],
    );
    let decode = bind(&module, "decode", &[encode.result().as_ref().clone()]);
    let init = json!({"vocabulary": ["[UNK]", "air", "##port", "regional"]});
    let pool = Pool::builder(&module)
        .state_for(&encode)
        .init_args(init)
        .start()
        .expect("a pool");
    let texts: ArrayRef = Arc::new(StringArray::from(vec![
        Some("Regional Airport"),
        None,
        Some(""),
        Some("Zürich air"),
    ]));
    let tokens = through(&pool, &encode, &texts).expect("tokens");
    assert_eq!(
        tokens
            .as_list::<i32>()
            .value(0)
            .as_primitive::<Int32Type>()
            .values(),
        &[3, 1, 2]
    );
    assert!(tokens.is_null(1) && tokens.as_list::<i32>().value_length(2) == 0);
    let back = through(&pool, &decode, &tokens.slice(1, 3)).expect("pieces");
    assert_eq!(
        back.as_string::<i32>(),
        &StringArray::from(vec![None, Some(""), Some("[UNK] air")])
    );
    assert_eq!(pool.metrics().inits, 1);
}

#[test]
fn batches_may_come_and_go_through_channels() {
    let (pool, call) = probe("scale", 1, json!({"k": 2}));
    let schema = batch(vec![("x", longs([]))]).schema();
    let stage = Stage::new(&schema)
        .call(&pool, &call, &["x"], "y")
        .expect("a stage")
        .batch_size(slots(3));
    let (send, receive) = std::sync::mpsc::channel();
    let out = stage.run_channel(receive, 2).expect("a thread");
    for n in 0..10 {
        send.send(Ok(batch(vec![("x", longs([n]))])))
            .expect("a receiver");
    }
    drop(send);
    let all: Vec<i64> = out
        .iter()
        .flat_map(|b| values(b.expect("rows").column(1)))
        .collect();
    assert_eq!(all, (0..10).map(|x| 2 * x).collect::<Vec<_>>());
}

#[test]
fn a_dictionary_stays_encoded_and_crosses_once() {
    let module = module("identity");
    let t = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let call = bind(&module, "identity", &[Field::new("x", t, true)]);
    let pool = pool(&module);
    let words: Vec<String> = (0..1000)
        .map(|i| format!("a rather long word, number {i}"))
        .collect();
    let values: ArrayRef = Arc::new(StringArray::from(words));
    let before = |n: i32| {
        let keys = Int32Array::from_iter_values((0..100).map(|i| (i * n) % 1000));
        let column: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::clone(&values)));
        let already = pool.metrics().bytes_in;
        assert_eq!(&through(&pool, &call, &column).expect("rows"), &column);
        pool.metrics().bytes_in - already
    };
    before(1);
    assert!(before(7) < 2000, "the values did not cross again");
}
