//! Which extractions (`!x`) run together, and which run in source order. The tests observe the order
//! of events, not the run time.

use dl::prelude::*;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

/// A rendezvous of two futures. A future that waits too long for the other one fails.
#[derive(Clone)]
struct Rendezvous(Arc<AtomicUsize>);

impl Rendezvous {
    fn new() -> Self {
        Rendezvous(Arc::new(AtomicUsize::new(0)))
    }

    fn arrive(&self, value: f64) -> Do<f64> {
        let rendezvous = self.clone();
        Do::from_fn(move || {
            let rendezvous = rendezvous.clone();
            async move {
                rendezvous.0.fetch_add(1, Ordering::SeqCst);
                for _ in 0..1000 {
                    if rendezvous.0.load(Ordering::SeqCst) >= 2 {
                        return Ok(value);
                    }
                    pause().await;
                }
                Err(Error::invalid("the other future did not start"))
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
    rendezvous: Rendezvous,
    numbers: (f64, f64),
}

fn shifted(rendezvous: &Rendezvous, value: f64) -> Do<f64> {
    rendezvous.arrive(value)
}

fn counted(rendezvous: &Rendezvous, n: usize) -> Do<f64> {
    rendezvous.arrive(n as f64)
}

fn mapped(rendezvous: &Rendezvous, value: f64, map: fn(f64) -> f64, other: Option<f64>) -> Do<f64> {
    rendezvous.arrive(map(other.unwrap_or(value)))
}

fn of_pair(pair: &Pair) -> Do<f64> {
    pair.rendezvous.arrive(pair.numbers.0)
}

macro_rules! run_together {
    ($($name:ident |$rendezvous:ident| $body:block)*) => {$(
        #[test]
        fn $name() {
            #[differentiable]
            fn body($rendezvous: &Rendezvous) -> Do<f64> {
                let sum: f64 = $body;
                Do::now(sum)
            }
            assert_eq!(body(&Rendezvous::new()).wait().unwrap(), 3.0);
        }
    )*};
}

run_together! {
    tuple_members_run_together |rendezvous| {
        let (a, b) = !(rendezvous.arrive(1.0), rendezvous.arrive(2.0));
        a + b
    }

    array_members_run_together |rendezvous| {
        let [a, b] = ![rendezvous.arrive(1.0), rendezvous.arrive(2.0)];
        a + b
    }

    vec_members_run_together |rendezvous| {
        let both = !vec![rendezvous.arrive(1.0), rendezvous.arrive(2.0)];
        both.iter().sum()
    }

    operands_run_together |rendezvous| {
        !rendezvous.arrive(1.0) + !rendezvous.arrive(2.0)
    }

    operands_with_literals_between_run_together |rendezvous| {
        (!rendezvous.arrive(1.0) * 1.0, -1.0 + 0.5 * 2.0, !rendezvous.arrive(2.0)).0 + 2.0
    }

    arguments_run_together |rendezvous| {
        add(!rendezvous.arrive(1.0), !rendezvous.arrive(2.0))
    }

    condition_operands_run_together |rendezvous| {
        if !rendezvous.arrive(1.0) < !rendezvous.arrive(2.0) { 3.0 } else { 0.0 }
    }

    scrutinee_members_run_together |rendezvous| {
        match (!rendezvous.arrive(1.0), !rendezvous.arrive(2.0)) {
            (a, b) if a < b => a + b,
            _ => 0.0,
        }
    }

    consecutive_lets_run_together |rendezvous| {
        let a = !rendezvous.arrive(1.0);
        let k = 1.0;
        let b = !rendezvous.arrive(2.0);
        a * k + b
    }

    consecutive_statements_run_together |rendezvous| {
        !rendezvous.arrive(1.0);
        let b = !rendezvous.arrive(3.0);
        b
    }

    operands_right_of_and_run_together |rendezvous| {
        let yes = rendezvous.0.load(Ordering::SeqCst) == 0;
        if yes && !rendezvous.arrive(1.0) < !rendezvous.arrive(2.0) { 3.0 } else { 0.0 }
    }

    operands_in_match_arm_run_together |rendezvous| {
        match rendezvous.0.load(Ordering::SeqCst) {
            0 => !rendezvous.arrive(1.0) + !rendezvous.arrive(2.0),
            _ => 0.0,
        }
    }

    operands_in_loop_condition_run_together |rendezvous| {
        let mut n = 0.0;
        while !rendezvous.arrive(n) < !rendezvous.arrive(3.0) {
            n += 1.0;
            rendezvous.0.store(0, Ordering::SeqCst);
        }
        n
    }

    statement_with_attribute_joins_previous_let |rendezvous| {
        let a = !rendezvous.arrive(1.0);
        #[allow(clippy::print_stdout, reason = "the test is about it")]
        println!("{a} {}", !rendezvous.arrive(3.0));
        3.0
    }

    operand_that_moves_number_joins |rendezvous| {
        let k = 1.0;
        let a = !shifted(rendezvous, k) * k;
        let b = !shifted(rendezvous, k);
        a + b + 1.0
    }

    operand_that_moves_cast_variable_joins |rendezvous| {
        let n = [(); 1].len();
        let a = !counted(rendezvous, n) / n as f64;
        let b = !counted(rendezvous, n);
        a + b + 1.0
    }

    operand_that_moves_constant_joins |rendezvous| {
        const ONE: f64 = 1.0;
        static NONE: Option<f64> = None;
        fn same(x: f64) -> f64 {
            x
        }
        let a = !mapped(rendezvous, ONE, same, NONE) * ONE + (same, NONE, 0.0).2;
        let b = (NONE, !mapped(rendezvous, ONE, same, NONE)).1;
        a + b * 2.0
    }

    operand_that_moves_shared_reference_joins |rendezvous| {
        fn picked<T>(x: &T) -> &T {
            x
        }
        let owned = Pair { rendezvous: rendezvous.clone(), numbers: (1.0, 2.0) };
        let typed: &Pair = picked(&owned);
        let a = !of_pair(typed) + typed.numbers.0 - 1.0;
        let b = !of_pair(typed) + 1.0;
        a + b
    }

    operand_that_moves_destructured_reference_joins |rendezvous| {
        let owned = Pair { rendezvous: rendezvous.clone(), numbers: (1.0, 2.0) };
        let Pair { rendezvous, numbers } = &owned;
        let a = !shifted(rendezvous, 1.0) * numbers.0 + (rendezvous, 0.0).1;
        let b = !shifted(rendezvous, 2.0);
        a + b
    }

    operand_that_moves_if_let_binding_joins |rendezvous| {
        let owned = Some(Pair { rendezvous: rendezvous.clone(), numbers: (1.0, 2.0) });
        let shared = &owned;
        if let Some(pair) = shared {
            let a = !of_pair(pair) * pair.numbers.0;
            let b = !of_pair(pair) * pair.numbers.1;
            a + b
        } else {
            0.0
        }
    }

    operand_that_moves_match_binding_joins |rendezvous| {
        match &Some(Pair { rendezvous: rendezvous.clone(), numbers: (1.0, 2.0) }) {
            Some(pair) => {
                let a = !of_pair(pair) * pair.numbers.0;
                let b = !of_pair(pair) * pair.numbers.1;
                a + b
            }
            None => 0.0,
        }
    }

    operand_that_moves_loop_variable_joins |rendezvous| {
        let pairs = [(Pair { rendezvous: rendezvous.clone(), numbers: (1.0, 2.0) }, 1.0)];
        let mut sum = 0.0;
        for (i, (pair, one)) in pairs.iter().enumerate() {
            let a = !of_pair(pair) * pair.numbers.0;
            let b = !of_pair(pair) * pair.numbers.1 + i as f64 * one;
            sum += a + b;
        }
        sum
    }

    fields_of_struct_with_cfg_run_together |rendezvous| {
        let pair = Pair {
            rendezvous: rendezvous.clone(),
            #[cfg(any())]
            numbers: (!missing, 0.0),
            #[cfg(all())]
            numbers: (!rendezvous.arrive(1.0), !rendezvous.arrive(2.0)),
        };
        pair.numbers.0 + pair.numbers.1
    }

    macro_arguments_run_together |rendezvous| {
        let text = format!("{} {}", !rendezvous.arrive(1.0), !rendezvous.arrive(2.0));
        text.split(' ').map(|n| n.parse::<f64>().unwrap()).sum()
    }
}

/// A log of events, in order.
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
    operands_are_built_in_source_order |log| {
        !log.run("a") + !log.run("b")
    } => "build a, build b, run a, run b"

    call_is_scheduling_barrier |log| {
        let a = !log.run("a");
        log.note("call");
        a + !log.run("b")
    } => "build a, run a, call, build b, run b"

    assignment_is_scheduling_barrier |log| {
        let mut a = 0.0;
        a = 2.0 * a + !log.run("a");
        a + !log.run("b")
    } => "build a, run a, build b, run b"

    compound_assignment_sides_run_in_sequence |log| {
        let mut v = [0.0, 0.0];
        v[!log.run("i") as usize] += !log.run("x");
        v[1]
    } => "build x, run x, build i, run i"

    operand_that_uses_first_result_runs_after_it |log| {
        let a = !log.run("a");
        let b = !Do::now(a).flat_map({ let log = log.clone(); move |_| log.run("b") });
        a + b
    } => "build a, run a, build b, run b"

    question_mark_is_scheduling_barrier |log| {
        let a = !log.run("a");
        let n: f64 = "1".parse()?;
        a + n + !log.run("b")
    } => "build a, run a, build b, run b"

    extraction_in_branch_is_not_hoisted |log| {
        let a = !log.run("a");
        if a > 2.0 { !log.run("b") } else { !log.run("c") }
    } => "build a, run a, build c, run c"

    extraction_right_of_and_is_not_hoisted |log| {
        if !log.run("a") > 2.0 && !log.run("b") > 0.0 { 1.0 } else { 0.0 }
    } => "build a, run a"

    operand_with_nested_extraction_starts_group |log| {
        let sum = !log.run("a") + !log.run(if !log.run("b") > 0.0 { "c" } else { "d" });
        sum
    } => "build a, run a, build b, run b, build c, run c"

    index_is_scheduling_barrier |log| {
        let v = [log.note("index")];
        let a = !log.run("a") + v[log.note("place") as usize - 1];
        a + !log.run("b")
    } => "index, build a, run a, place, build b, run b"

    unlisted_macro_is_scheduling_barrier |log| {
        macro_rules! noted {
            ($log:expr) => {
                $log.note("macro")
            };
        }
        let a = !log.run("a") + noted!(log);
        a + !log.run("b")
    } => "build a, run a, macro, build b, run b"

    operand_that_may_write_read_variable_is_not_hoisted |log| {
        let mut names = ["a", "b"].into_iter();
        let a = !log.run("first") + names.len() as f64;
        let b = !log.run(names.next().unwrap());
        a + b
    } => "build first, run first, build a, run a"

    operand_that_moves_mutable_reference_is_not_hoisted |log| {
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

    operand_that_moves_part_of_read_variable_is_not_hoisted |log| {
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
        #[allow(clippy::explicit_auto_deref, reason = "the test is about it")]
        let d = !counting(log, *nested, "b");
        let e = (three, !log.run("third"));
        let f = !counting(log, e.0[0], "c");
        assert_eq!((a, b, c, d, e.1, f), (1.0, 1.0, 1.0, 1.0, 1.0, 1.0));
        a
    } => "build first, run first, build a, build second, run a, run second, build b, build third, run b, run third, build c, run c"

    extraction_in_cfg_statement_is_not_hoisted |log| {
        let a = !log.run("a");
        #[cfg(all())]
        log.note(if !log.run("b") > a { "more" } else { "less" });
        a
    } => "build a, run a, build b, run b, less"

    extraction_in_loop_is_not_hoisted |log| {
        let mut sum = !log.run("before");
        for name in ["a", "b"] {
            sum += !log.run(name);
        }
        sum + !log.run("after")
    } => "build before, run before, build a, run a, build b, run b, build after, run after"

    extraction_in_guard_or_arm_is_not_hoisted |log| {
        match !log.run("scrutinee") {
            v if v > !log.run("first guard") => !log.run("first arm"),
            _ if !log.run("second guard") > 0.0 => !log.run("second arm"),
            _ => 0.0,
        }
    } => "build scrutinee, run scrutinee, build first guard, run first guard, build second guard, run second guard, \
          build second arm, run second arm"

    extraction_in_let_else_is_not_hoisted |log| {
        let a = !log.run("a");
        let Some(b) = Some(a).filter(|a| *a > 2.0) else {
            return Do::now(!log.run("else"));
        };
        b + !log.run("b")
    } => "build a, run a, build else, run else"

    direct_block_runs_when_extracted |log| {
        let block = direct! { Do::now(!log.run("inner") + !log.run("other")) };
        log.note("built");
        !block + !log.run("outer")
    } => "built, build outer, build inner, build other, run inner, run other, run outer"
}
