//! Which bangs run together, and which keep the written order: told from what happened, not from
//! how long it took.

use dl::prelude::*;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

/// A room in which two have to meet. Who is alone for too long fails.
#[derive(Clone)]
struct Room(Arc<AtomicUsize>);

impl Room {
    fn new() -> Self {
        Room(Arc::new(AtomicUsize::new(0)))
    }

    fn visit(&self, value: f64) -> Do<f64> {
        let room = self.clone();
        Do::from_fn(move || {
            let room = room.clone();
            async move {
                room.0.fetch_add(1, Ordering::SeqCst);
                for _ in 0..1000 {
                    if room.0.load(Ordering::SeqCst) >= 2 {
                        return Ok(value);
                    }
                    pause().await;
                }
                Err(Error::invalid("nobody came"))
            }
        })
    }
}

async fn pause() {
    let mut paused = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

fn add(a: f64, b: f64) -> f64 {
    a + b
}

struct Pair {
    room: Room,
    numbers: (f64, f64),
}

fn shifted(room: &Room, value: f64) -> Do<f64> {
    room.visit(value)
}

fn counted(room: &Room, n: usize) -> Do<f64> {
    room.visit(n as f64)
}

fn mapped(room: &Room, value: f64, map: fn(f64) -> f64, other: Option<f64>) -> Do<f64> {
    room.visit(map(other.unwrap_or(value)))
}

fn of_pair(pair: &Pair) -> Do<f64> {
    pair.room.visit(pair.numbers.0)
}

macro_rules! together {
    ($($name:ident |$room:ident| $body:block)*) => {$(
        #[test]
        fn $name() {
            #[differentiable]
            fn body($room: &Room) -> Do<f64> {
                let sum: f64 = $body;
                Do::now(sum)
            }
            assert_eq!(body(&Room::new()).wait().unwrap(), 3.0);
        }
    )*};
}

together! {
    members_of_a_tuple |room| {
        let (a, b) = !(room.visit(1.0), room.visit(2.0));
        a + b
    }

    members_of_an_array |room| {
        let [a, b] = ![room.visit(1.0), room.visit(2.0)];
        a + b
    }

    members_of_a_vec |room| {
        let both = !vec![room.visit(1.0), room.visit(2.0)];
        both.iter().sum()
    }

    operands |room| {
        !room.visit(1.0) + !room.visit(2.0)
    }

    operands_with_literals_between |room| {
        (!room.visit(1.0) * 1.0, -1.0 + 0.5 * 2.0, !room.visit(2.0)).0 + 2.0
    }

    arguments |room| {
        add(!room.visit(1.0), !room.visit(2.0))
    }

    a_condition |room| {
        if !room.visit(1.0) < !room.visit(2.0) { 3.0 } else { 0.0 }
    }

    a_scrutinee |room| {
        match (!room.visit(1.0), !room.visit(2.0)) {
            (a, b) if a < b => a + b,
            _ => 0.0,
        }
    }

    consecutive_lets |room| {
        let a = !room.visit(1.0);
        let k = 1.0;
        let b = !room.visit(2.0);
        a * k + b
    }

    statements |room| {
        !room.visit(1.0);
        let b = !room.visit(3.0);
        b
    }

    a_right_side |room| {
        let yes = room.0.load(Ordering::SeqCst) == 0;
        if yes && !room.visit(1.0) < !room.visit(2.0) { 3.0 } else { 0.0 }
    }

    an_arm |room| {
        match room.0.load(Ordering::SeqCst) {
            0 => !room.visit(1.0) + !room.visit(2.0),
            _ => 0.0,
        }
    }

    the_condition_of_a_loop |room| {
        let mut n = 0.0;
        while !room.visit(n) < !room.visit(3.0) {
            n += 1.0;
            room.0.store(0, Ordering::SeqCst);
        }
        n
    }

    a_statement_with_an_attribute |room| {
        let a = !room.visit(1.0);
        #[allow(clippy::print_stdout, reason = "it is the subject")]
        println!("{a} {}", !room.visit(3.0));
        3.0
    }

    what_is_given_a_number_again |room| {
        let k = 1.0;
        let a = !shifted(room, k) * k;
        let b = !shifted(room, k);
        a + b + 1.0
    }

    what_is_given_a_cast_number_again |room| {
        let n = [(); 1].len();
        let a = !counted(room, n) / n as f64;
        let b = !counted(room, n);
        a + b + 1.0
    }

    what_is_given_a_constant_again |room| {
        const ONE: f64 = 1.0;
        static NONE: Option<f64> = None;
        fn same(x: f64) -> f64 {
            x
        }
        let a = !mapped(room, ONE, same, NONE) * ONE + (same, NONE, 0.0).2;
        let b = (NONE, !mapped(room, ONE, same, NONE)).1;
        a + b * 2.0
    }

    what_is_given_a_shared_reference_again |room| {
        fn picked<T>(x: &T) -> &T {
            x
        }
        let owned = Pair { room: room.clone(), numbers: (1.0, 2.0) };
        let typed: &Pair = picked(&owned);
        let a = !of_pair(typed) + typed.numbers.0 - 1.0;
        let b = !of_pair(typed) + 1.0;
        a + b
    }

    what_is_given_a_part_of_what_is_shared |room| {
        let owned = Pair { room: room.clone(), numbers: (1.0, 2.0) };
        let Pair { room, numbers } = &owned;
        let a = !shifted(room, 1.0) * numbers.0 + (room, 0.0).1;
        let b = !shifted(room, 2.0);
        a + b
    }

    what_is_given_a_part_that_is_matched |room| {
        let owned = Some(Pair { room: room.clone(), numbers: (1.0, 2.0) });
        let shared = &owned;
        if let Some(pair) = shared {
            let a = !of_pair(pair) * pair.numbers.0;
            let b = !of_pair(pair) * pair.numbers.1;
            a + b
        } else {
            0.0
        }
    }

    what_is_given_a_part_in_an_arm |room| {
        match &Some(Pair { room: room.clone(), numbers: (1.0, 2.0) }) {
            Some(pair) => {
                let a = !of_pair(pair) * pair.numbers.0;
                let b = !of_pair(pair) * pair.numbers.1;
                a + b
            }
            None => 0.0,
        }
    }

    what_is_given_members_that_are_lent |room| {
        let pairs = [(Pair { room: room.clone(), numbers: (1.0, 2.0) }, 1.0)];
        let mut sum = 0.0;
        for (i, (pair, one)) in pairs.iter().enumerate() {
            let a = !of_pair(pair) * pair.numbers.0;
            let b = !of_pair(pair) * pair.numbers.1 + i as f64 * one;
            sum += a + b;
        }
        sum
    }

    a_struct_with_a_field_that_is_compiled_out |room| {
        let pair = Pair {
            room: room.clone(),
            #[cfg(any())]
            numbers: (!missing, 0.0),
            #[cfg(all())]
            numbers: (!room.visit(1.0), !room.visit(2.0)),
        };
        pair.numbers.0 + pair.numbers.1
    }

    arguments_of_a_macro |room| {
        let text = format!("{} {}", !room.visit(1.0), !room.visit(2.0));
        text.split(' ').map(|n| n.parse::<f64>().unwrap()).sum()
    }
}

/// What happened, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, event: &str) -> f64 {
        self.0.lock().unwrap().push(event.to_owned());
        1.0
    }

    fn run(&self, name: &'static str) -> Do<f64> {
        self.note(&format!("build {name}"));
        let log = self.clone();
        Do::from_fn(move || {
            let log = log.clone();
            async move { Ok(log.note(&format!("run {name}"))) }
        })
    }
}

macro_rules! in_order {
    ($($name:ident |$log:ident| $body:block => $events:literal)*) => {$(
        #[test]
        fn $name() {
            #[differentiable]
            fn body($log: &Log) -> Do<f64> {
                let sum: f64 = $body;
                Do::now(sum)
            }
            let log = Log::default();
            body(&log).wait().unwrap();
            assert_eq!(log.0.lock().unwrap().join(", "), $events);
        }
    )*};
}

in_order! {
    operands_are_built_in_the_written_order |log| {
        !log.run("a") + !log.run("b")
    } => "build a, build b, run a, run b"

    never_across_a_call |log| {
        let a = !log.run("a");
        log.note("call");
        a + !log.run("b")
    } => "build a, run a, call, build b, run b"

    never_across_an_assignment |log| {
        let mut a = 0.0;
        a = 2.0 * a + !log.run("a");
        a + !log.run("b")
    } => "build a, run a, build b, run b"

    never_in_a_compound_assignment |log| {
        let mut v = [0.0, 0.0];
        v[!log.run("i") as usize] += !log.run("x");
        v[1]
    } => "build x, run x, build i, run i"

    never_when_it_depends |log| {
        let a = !log.run("a");
        let b = !Do::now(a).flat_map({ let log = log.clone(); move |_| log.run("b") });
        a + b
    } => "build a, run a, build b, run b"

    never_across_a_question_mark |log| {
        let a = !log.run("a");
        let n: f64 = "1".parse()?;
        a + n + !log.run("b")
    } => "build a, run a, build b, run b"

    never_out_of_a_branch |log| {
        let a = !log.run("a");
        if a > 2.0 { !log.run("b") } else { !log.run("c") }
    } => "build a, run a, build c, run c"

    never_out_of_a_right_side |log| {
        if !log.run("a") > 2.0 && !log.run("b") > 0.0 { 1.0 } else { 0.0 }
    } => "build a, run a"

    an_operand_with_a_bang_starts_a_group |log| {
        let sum = !log.run("a") + !log.run(if !log.run("b") > 0.0 { "c" } else { "d" });
        sum
    } => "build a, run a, build b, run b, build c, run c"

    never_across_an_index |log| {
        let v = [log.note("index")];
        let a = !log.run("a") + v[log.note("place") as usize - 1];
        a + !log.run("b")
    } => "index, build a, run a, place, build b, run b"

    never_across_an_unlisted_macro |log| {
        macro_rules! noted {
            ($log:expr) => {
                $log.note("macro")
            };
        }
        let a = !log.run("a") + noted!(log);
        a + !log.run("b")
    } => "build a, run a, macro, build b, run b"

    never_when_it_may_change_what_was_read |log| {
        let mut names = ["a", "b"].into_iter();
        let a = !log.run("first") + names.len() as f64;
        let b = !log.run(names.next().unwrap());
        a + b
    } => "build first, run first, build a, run a"

    never_when_it_is_given_what_was_read |log| {
        fn next<'a>(names: &mut std::vec::IntoIter<&'a str>) -> &'a str {
            names.next().unwrap()
        }
        struct Names<'a>(usize, &'a mut std::vec::IntoIter<&'static str>);
        fn of(names: Names<'_>) -> &'static str {
            names.1.next().unwrap()
        }
        let mut all = vec!["a", "b"].into_iter();
        let mut count = 0;
        let counted = &mut count;
        fn counting<'a>(log: &Log, count: &mut usize, name: &'a str) -> Do<f64> where 'a: 'static {
            *count += 1;
            log.run(name)
        }
        let a = !log.run("first") + *counted as f64;
        let b = !counting(log, counted, next(&mut all));
        let names = Names(count, &mut all);
        let c = !log.run("second") + names.0 as f64;
        let d = !log.run(of(names));
        assert_eq!((a, b, c, d), (1.0, 1.0, 2.0, 1.0));
        a
    } => "build first, run first, build a, run a, build second, run second, build b, run b"

    never_when_it_is_given_a_part_of_what_was_read |log| {
        struct Counter<'a>(&'a mut usize);
        fn counting(log: &Log, count: &mut usize, name: &'static str) -> Do<f64> {
            *count += 1;
            log.run(name)
        }
        let mut counts = [0, 0, 0];
        let [one, two, three] = &mut counts;
        let (counter, mut two) = (Counter(one), two);
        let (nested, three) = (&mut two, [three]);
        let a = !log.run("first") + *counter.0 as f64;
        let b = !counting(log, counter.0, "a");
        let c = !log.run("second") + **nested as f64;
        #[allow(clippy::explicit_auto_deref, reason = "it is the subject")]
        let d = !counting(log, *nested, "b");
        let e = (three, !log.run("third"));
        let f = !counting(log, e.0[0], "c");
        assert_eq!((a, b, c, d, e.1, f), (1.0, 1.0, 1.0, 1.0, 1.0, 1.0));
        a
    } => "build first, run first, build a, build second, run a, run second, build b, build third, run b, run third, build c, run c"

    never_out_of_a_statement_that_may_be_compiled_out |log| {
        let a = !log.run("a");
        #[cfg(all())]
        log.note(if !log.run("b") > a { "more" } else { "less" });
        a
    } => "build a, run a, build b, run b, less"

    never_into_or_out_of_a_loop |log| {
        let mut sum = !log.run("before");
        for name in ["a", "b"] {
            sum += !log.run(name);
        }
        sum + !log.run("after")
    } => "build before, run before, build a, run a, build b, run b, build after, run after"

    never_out_of_a_guard_or_an_arm |log| {
        match !log.run("scrutinee") {
            v if v > !log.run("first guard") => !log.run("first arm"),
            _ if !log.run("second guard") > 0.0 => !log.run("second arm"),
            _ => 0.0,
        }
    } => "build scrutinee, run scrutinee, build first guard, run first guard, build second guard, run second guard, \
          build second arm, run second arm"

    never_out_of_the_else_of_a_let |log| {
        let a = !log.run("a");
        let Some(b) = Some(a).filter(|a| *a > 2.0) else {
            return Do::now(!log.run("else"));
        };
        b + !log.run("b")
    } => "build a, run a, build else, run else"

    a_block_inside_runs_in_its_turn |log| {
        let block = direct! { Do::now(!log.run("inner") + !log.run("other")) };
        log.note("built");
        !block + !log.run("outer")
    } => "built, build outer, build inner, build other, run inner, run other, run outer"
}
