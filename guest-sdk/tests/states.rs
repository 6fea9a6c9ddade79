//! States as the host drives them, and what the manifest says of them.

use wasmill_guest::testing::{Instance, handle};
use wasmill_guest::{InitArgs, udf};

/// How to count.
#[derive(InitArgs)]
struct TallyArgs {
    /// The first number.
    #[init(default = -3, minimum = -10)]
    start: i64,
    /// Names, "quoted" too.
    names: Option<Vec<String>>,
    mode: Mode,
    /// The mode after an overflow.
    #[init(default = Mode::Up)]
    after: Mode,
}

#[derive(InitArgs, Clone, Copy, PartialEq)]
enum Mode {
    #[init(rename = "up")]
    Up,
    Down,
}

struct Tally {
    value: i64,
    mode: Mode,
    names: usize,
}

#[udf(name = "tally")]
impl Tally {
    fn init(args: TallyArgs) -> Result<Self, String> {
        if args.start == 0 {
            return Err("0 is no start".to_owned());
        }
        Ok(Self {
            value: args.start,
            mode: if args.start == i64::MAX {
                args.after
            } else {
                args.mode
            },
            names: args.names.map_or(0, |names| names.len()),
        })
    }

    fn next(&mut self) -> i64 {
        self.value += if self.mode == Mode::Up { 1 } else { -1 };
        self.value
    }

    #[udf(volatility = "stable")]
    fn names(&self) -> i64 {
        self.names as i64
    }

    #[udf(skip)]
    fn helper() {}

    fn close(self) {
        Self::helper();
    }
}

#[test]
fn a_state_lives_from_init_to_close() {
    let (instance, state) = (Instance::new(), handle!(Tally));
    let handle = instance
        .init(&state, r#"{"mode":"up","names":["a","b"]}"#)
        .expect("a state");
    for wanted in [[-2, -1], [0, 1]] {
        let answer = instance.call_on(handle, &state.methods[0], 2, &[]);
        assert_eq!(answer.expect("the call works").rows::<i64>(), wanted);
    }
    let names = instance
        .call_on(handle, &state.methods[1], 1, &[])
        .expect("the call works");
    assert_eq!(names.rows::<i64>(), [2]);
    instance.close(&state, handle);
    let gone = instance.call_on(handle, &state.methods[0], 1, &[]);
    assert!(
        gone.err()
            .is_some_and(|message| message.contains("no state"))
    );
}

#[test]
fn a_state_that_cannot_be_made_says_why() {
    let (instance, state) = (Instance::new(), handle!(Tally));
    let refused = |args| instance.init(&state, args).err().unwrap_or_default();
    assert_eq!(refused(r#"{"start":0,"mode":"Down"}"#), "0 is no start");
    assert!(refused(r#"{"mode":"sideways"}"#).contains("sideways"));
    assert!(refused("{").contains("init arguments"));
}

#[test]
fn the_manifest_describes_a_state_and_its_arguments() {
    let record = handle!(Tally).methods[0].record.to_json();
    let record: serde_json::Value = serde_json::from_str(&record).expect("a record is JSON");
    let wanted = serde_json::json!({
        "abi": 1, "kind": "scalar", "name": "next", "args": [],
        "result": {"format": "l", "nullable": false},
        "volatility": "volatile", "nulls": "propagate", "symbol": "wasmill_call_next",
        "state": {
            "name": "tally", "kind": "sequence",
            "init": "wasmill_init_tally", "close": "wasmill_close_tally",
            "init_args": {
                "type": "object", "description": "How to count.", "additionalProperties": false,
                "required": ["mode"],
                "properties": {
                    "start": {"type": "integer", "description": "The first number.", "minimum": -10, "maximum": i64::MAX, "default": -3},
                    "names": {"type": "array", "description": "Names, \"quoted\" too.", "items": {"type": "string"}},
                    "mode": {"type": "string", "enum": ["up", "Down"]},
                    "after": {"type": "string", "description": "The mode after an overflow.", "enum": ["up", "Down"], "default": "up"},
                },
            },
        },
    });
    assert_eq!(record, wanted);
}
