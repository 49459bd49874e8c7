//! Plain functions give the same results in an annotated module as without the attribute. Each
//! algorithm is written once and compiled twice; a test is named after the function it compares.

use dl::prelude::*;

macro_rules! twice {
    ($($code:tt)*) => {
        #[allow(
            unreachable_pub,
            clippy::manual_is_multiple_of,
            clippy::neg_cmp_op_on_partial_ord,
            clippy::nonminimal_bool,
            reason = "the test is about constructs, not style"
        )]
        mod plain {
            $($code)*
        }
        #[allow(
            unreachable_pub,
            clippy::manual_is_multiple_of,
            clippy::neg_cmp_op_on_partial_ord,
            clippy::nonminimal_bool,
            reason = "the test is about constructs, not style"
        )]
        #[differentiable]
        mod annotated {
            $($code)*
        }
    };
}

twice! {
    use std::collections::{BTreeMap, BinaryHeap, HashSet, VecDeque};
    use std::fmt::{self, Write};
    use std::rc::Rc;
    use std::cell::RefCell;

    pub fn collatz(mut n: u64) -> usize {
        let mut steps = 0;
        while n != 1 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
        steps
    }

    pub fn primes(limit: usize) -> Vec<usize> {
        let mut composite = vec![false; limit + 1];
        let mut primes = Vec::new();
        for n in 2..=limit {
            if !composite[n] {
                primes.push(n);
                let mut multiple = n * n;
                while multiple <= limit {
                    composite[multiple] = true;
                    multiple += n;
                }
            }
        }
        primes
    }

    pub fn fibonacci(n: u32) -> u64 {
        let (mut a, mut b) = (0, 1);
        for _ in 0..n {
            (a, b) = (b, a + b);
        }
        a
    }

    pub fn ackermann(m: u64, n: u64) -> u64 {
        match (m, n) {
            (0, n) => n + 1,
            (m, 0) => ackermann(m - 1, 1),
            (m, n) => ackermann(m - 1, ackermann(m, n - 1)),
        }
    }

    pub fn is_even(n: u32) -> bool {
        n == 0 || is_odd(n - 1)
    }

    pub fn is_odd(n: u32) -> bool {
        n != 0 && is_even(n - 1)
    }

    pub fn lowest_bit(n: i32) -> (i32, i32, i32) {
        (n & -n, n & (n - 1), !n & (n + 1))
    }

    pub fn rounded_up(n: usize, to: usize) -> usize {
        (n + to - 1) & !(to - 1)
    }

    pub fn parity(n: u64) -> bool {
        let mut n = n;
        n ^= n >> 32;
        n ^= n >> 16;
        n ^= n >> 8;
        n ^= n >> 4;
        n ^= n >> 2;
        n ^= n >> 1;
        !(n & 1 == 0)
    }

    pub fn crc(bytes: &[u8]) -> u32 {
        let mut crc = !0_u32;
        for byte in bytes {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                let mask = !(crc & 1).wrapping_sub(1);
                crc = (crc >> 1) ^ (0xEDB8_8320 & mask);
            }
        }
        !crc
    }

    pub fn subsets(items: &[char]) -> Vec<String> {
        (0..1_usize << items.len())
            .map(|mask| items.iter().enumerate().filter(|(i, _)| mask >> i & 1 != 0).map(|(_, c)| *c).collect())
            .collect()
    }

    pub fn encoded(text: &str) -> String {
        let mut out = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let mut count = 1;
            while chars.peek() == Some(&c) {
                chars.next();
                count += 1;
            }
            if count > 1 {
                write!(out, "{count}").unwrap();
            }
            out.push(c);
        }
        out
    }

    pub fn reversed_words(text: &str) -> String {
        let words: Vec<&str> = text.split_whitespace().rev().collect();
        words.join(" ")
    }

    pub fn shifted(text: &str, by: u8) -> String {
        let shift = |c: char, base: u8| ((c as u8 - base + by) % 26 + base) as char;
        text.chars()
            .map(|c| match c {
                'a'..='z' => shift(c, b'a'),
                'A'..='Z' => shift(c, b'A'),
                other => other,
            })
            .collect()
    }

    pub fn is_palindrome(text: &str) -> bool {
        let letters: Vec<char> = text.chars().filter(|c| c.is_alphanumeric()).collect();
        let n = letters.len();
        for i in 0..n / 2 {
            if !letters[i].eq_ignore_ascii_case(&letters[n - 1 - i]) {
                return false;
            }
        }
        true
    }

    pub fn balanced(text: &str) -> Result<usize, String> {
        let mut open = Vec::new();
        let mut deepest = 0;
        for (i, c) in text.char_indices() {
            match c {
                '(' | '[' => open.push(c),
                ')' | ']' => {
                    let last = open.pop().ok_or_else(|| format!("nothing open at {i}"))?;
                    if !matches!((last, c), ('(', ')') | ('[', ']')) {
                        return Err(format!("{last} closed by {c} at {i}"));
                    }
                }
                _ => continue,
            }
            deepest = deepest.max(open.len());
        }
        if !open.is_empty() { Err(format!("{} open", open.len())) } else { Ok(deepest) }
    }

    pub fn calculated(text: &str) -> Option<f64> {
        let mut stack: Vec<f64> = Vec::new();
        for token in text.split(' ') {
            if let Ok(number) = token.parse::<f64>() {
                stack.push(number);
                continue;
            }
            let (b, a) = (stack.pop()?, stack.pop()?);
            stack.push(match token {
                "+" => a + b,
                "-" => a - b,
                "*" => a * b,
                "/" if b != 0.0 => a / b,
                _ => return None,
            });
        }
        let result = stack.pop()?;
        stack.is_empty().then_some(result)
    }

    #[derive(Debug)]
    pub enum Refused {
        Number(std::num::ParseIntError),
        Negative(i64),
    }

    impl fmt::Display for Refused {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self {
                Refused::Number(error) => write!(f, "number: {error}"),
                Refused::Negative(n) => write!(f, "{n} is negative"),
            }
        }
    }

    impl From<std::num::ParseIntError> for Refused {
        fn from(error: std::num::ParseIntError) -> Self {
            Refused::Number(error)
        }
    }

    fn natural(text: &str) -> Result<i64, Refused> {
        let n: i64 = text.parse()?;
        if n < 0 { Err(Refused::Negative(n)) } else { Ok(n) }
    }

    pub fn naturals(text: &str) -> String {
        let all: Result<Vec<i64>, Refused> = text.split(',').map(natural).collect();
        match all {
            Ok(all) => format!("{all:?}"),
            Err(error) => error.to_string(),
        }
    }

    pub fn position(sorted: &[i32], wanted: i32) -> Result<usize, usize> {
        let (mut low, mut high) = (0, sorted.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match sorted[middle].cmp(&wanted) {
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    pub fn insertion_sorted<T: PartialOrd + Clone>(items: &[T]) -> Vec<T> {
        let mut sorted = items.to_vec();
        for i in 1..sorted.len() {
            let mut j = i;
            while j > 0 && !(sorted[j - 1] <= sorted[j]) {
                sorted.swap(j - 1, j);
                j -= 1;
            }
        }
        sorted
    }

    pub fn merged<const N: usize>(lists: [&[u32]; N]) -> Vec<u32> {
        let mut heap: BinaryHeap<_> =
            lists.iter().enumerate().filter_map(|(i, l)| Some((std::cmp::Reverse(*l.first()?), i, 1))).collect();
        let mut out = Vec::new();
        while let Some((std::cmp::Reverse(value), list, next)) = heap.pop() {
            out.push(value);
            let Some(following) = lists[list].get(next) else { continue };
            heap.push((std::cmp::Reverse(*following), list, next + 1));
        }
        out
    }

    pub fn quick(items: Vec<i32>) -> Vec<i32> {
        let Some((pivot, rest)) = items.split_first() else { return items };
        let (small, large): (Vec<i32>, Vec<i32>) = rest.iter().partition(|x| !(*x > pivot));
        let mut out = quick(small);
        out.push(*pivot);
        out.extend(quick(large));
        out
    }

    pub fn distances(edges: &[(usize, usize)], n: usize) -> Vec<Option<usize>> {
        let mut found = vec![None; n];
        let mut queue = VecDeque::from([(0, 0)]);
        while let Some((node, distance)) = queue.pop_front() {
            if found[node].is_some() {
                continue;
            }
            found[node] = Some(distance);
            for (a, b) in edges {
                if *a == node && found[*b].is_none() {
                    queue.push_back((*b, distance + 1));
                }
            }
        }
        found
    }

    pub fn queens(n: usize) -> usize {
        fn place(row: usize, n: usize, columns: &mut Vec<usize>) -> usize {
            if row == n {
                return 1;
            }
            let mut count = 0;
            'column: for column in 0..n {
                for (r, c) in columns.iter().enumerate() {
                    if *c == column || c.abs_diff(column) == row - r {
                        continue 'column;
                    }
                }
                columns.push(column);
                count += place(row + 1, n, columns);
                columns.pop();
            }
            count
        }
        place(0, n, &mut Vec::new())
    }

    pub fn life(cells: &HashSet<(i32, i32)>) -> Vec<(i32, i32)> {
        let mut neighbours: BTreeMap<(i32, i32), u8> = BTreeMap::new();
        for &(x, y) in cells {
            for (dx, dy) in (-1..=1).flat_map(|dx| (-1..=1).map(move |dy| (dx, dy))) {
                if !(dx == 0 && dy == 0) {
                    *neighbours.entry((x + dx, y + dy)).or_default() += 1;
                }
            }
        }
        neighbours.into_iter().filter(|(cell, n)| *n == 3 || *n == 2 && cells.contains(cell)).map(|(c, _)| c).collect()
    }

    pub fn knapsack(items: &[(usize, u32)], room: usize) -> u32 {
        let mut best = vec![0; room + 1];
        for &(weight, worth) in items {
            for r in (weight..=room).rev() {
                best[r] = best[r].max(best[r - weight] + worth);
            }
        }
        best[room]
    }

    pub fn edits(a: &str, b: &str) -> usize {
        let b: Vec<char> = b.chars().collect();
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, x) in a.chars().enumerate() {
            let mut diagonal = std::mem::replace(&mut row[0], i + 1);
            for (j, y) in b.iter().enumerate() {
                let replaced = diagonal + usize::from(x != *y);
                diagonal = row[j + 1];
                row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
            }
        }
        row[b.len()]
    }

    pub fn root(x: f64) -> f64 {
        let mut guess = x;
        loop {
            let next = 0.5 * (guess + x / guess);
            if (next - guess).abs() < 1e-12 * guess {
                break next;
            }
            guess = next;
        }
    }

    pub fn polynomial(coefficients: &[f64], x: f64) -> f64 {
        coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
    }

    #[derive(Clone, Copy)]
    pub struct Complex(f64, f64);

    impl std::ops::Mul for Complex {
        type Output = Complex;
        fn mul(self, other: Complex) -> Complex {
            Complex(self.0 * other.0 - self.1 * other.1, self.0 * other.1 + self.1 * other.0)
        }
    }

    impl std::ops::Add for Complex {
        type Output = Complex;
        fn add(self, other: Complex) -> Complex {
            Complex(self.0 + other.0, self.1 + other.1)
        }
    }

    pub fn escapes(x: f64, y: f64) -> u32 {
        let c = Complex(x, y);
        let mut z = c;
        for n in 0..100 {
            z = z * z + c;
            if z.0 * z.0 + z.1 * z.1 > 4.0 {
                return n;
            }
        }
        100
    }

    #[derive(Clone)]
    pub struct Text(String);

    impl std::ops::Add for Text {
        type Output = Text;
        fn add(self, other: Text) -> Text {
            Text(self.0 + &other.0)
        }
    }

    pub fn repeated(word: &str) -> String {
        let word = Text(word.to_owned());
        let space = Text(" ".to_owned());
        let line = word.clone() + space + word;
        (line.clone() + Text("!".to_owned()) + line).0
    }

    pub fn determinant(m: [[f64; 3]; 3]) -> f64 {
        let [[a, b, c], [d, e, f], [g, h, i]] = m;
        a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    }

    pub fn transposed(rows: &[Vec<i32>]) -> Vec<Vec<i32>> {
        let Some(first) = rows.first() else { return vec![] };
        (0..first.len()).map(|column| rows.iter().map(|row| row[column]).collect()).collect()
    }

    pub fn random(seed: u32) -> Vec<u32> {
        let mut state = seed;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state % 100
        };
        [next(), next(), next()].into_iter().chain((0..3).map(|_| next())).collect()
    }

    pub fn roman(mut n: u32) -> String {
        const NUMERALS: [(u32, &str); 13] = [
            (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"),
            (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
        ];
        let mut out = String::new();
        for (value, numeral) in NUMERALS {
            while n >= value {
                out += numeral;
                n -= value;
            }
        }
        out
    }

    pub fn fizzbuzz(n: u32) -> String {
        match (n % 3, n % 5) {
            (0, 0) => "FizzBuzz".into(),
            (0, _) => "Fizz".into(),
            (_, 0) => "Buzz".into(),
            _ if !(n % 7 != 0) => format!("{n:>4}"),
            _ => n.to_string(),
        }
    }

    pub trait Shape {
        fn area(&self) -> f64;
        fn double(&self) -> f64 {
            let area = self.area();
            area + area
        }
    }

    struct Square(f64);
    struct Circle { radius: f64 }

    impl Shape for Square {
        fn area(&self) -> f64 {
            self.0 * self.0
        }
    }

    impl Shape for Circle {
        fn area(&self) -> f64 {
            let Self { radius } = self;
            3.0 * radius * radius
        }
    }

    pub fn areas() -> f64 {
        let shapes: [Box<dyn Shape>; 2] = [Box::new(Square(2.0)), Box::new(Circle { radius: 1.5 })];
        shapes.iter().map(|shape| shape.double() + shape.area()).sum()
    }

    pub fn counted_calls(n: u32) -> Vec<u32> {
        let log = Rc::new(RefCell::new(Vec::new()));
        let call = { let log = Rc::clone(&log); move |n: u32| { log.borrow_mut().push(n); !n } };
        let _ = (0..n).map(|i| call(i) ^ i).filter(|n| *n != 0).count();
        Rc::try_unwrap(log).map_err(drop).map_or_else(|()| vec![n], RefCell::into_inner)
    }

    pub fn longest<'a>(words: &[&'a str]) -> Option<&'a str> {
        let mut best = *words.first()?;
        for word in words {
            if !(word.len() <= best.len()) {
                best = word;
            }
        }
        Some(best)
    }

    pub fn overflowing(a: u8, b: u8) -> Result<u8, &'static str> {
        let sum = a.checked_add(b).ok_or("sum")?;
        let product = 'product: {
            if a == 0 {
                break 'product Some(0);
            }
            a.checked_mul(b)
        };
        let product = product.ok_or("product")?;
        Ok(!sum ^ product)
    }

    pub fn doubled(numbers: &mut [i32]) -> i32 {
        let mut total = 0;
        for number in numbers.iter_mut() {
            *number *= 2;
            *number -= -1;
            total += *number;
        }
        total
    }

    pub async fn later(n: u32) -> u32 {
        !n + async { 1 }.await
    }

    pub const fn masked(n: u32) -> u32 {
        !n & 0xFF
    }
}

macro_rules! same_results {
    ($($name:ident ($($arguments:tt),* $(,)?);)*) => {$(
        #[test]
        fn $name() {
            $(
                let (plain, annotated) = (plain::$name $arguments, annotated::$name $arguments);
                assert_eq!(plain, annotated, concat!(stringify!($name), stringify!($arguments)));
            )*
        }
    )*};
}

same_results! {
    collatz((1), (27), (97));
    primes((1), (2), (100));
    fibonacci((0), (1), (50));
    ackermann((0, 3), (2, 3));
    is_even((10), (7));
    is_odd((10), (7));
    lowest_bit((0), (12), (-7));
    rounded_up((0, 8), (13, 8), (16, 16));
    parity((0), (7), (u64::MAX), (1 << 63));
    crc((b""), (b"123456789"));
    subsets((&[]), (&['a', 'b', 'c']));
    encoded((""), ("aaabccd"));
    reversed_words((" a bc  d "));
    shifted(("Hello, World", 3), ("xyz", 30));
    is_palindrome(("A man, a plan, a canal: Panama"), ("no"));
    balanced(("([])()"), ("(]"), (")"), ("(("));
    calculated(("1 2 + 3 *"), ("1 0 /"), ("+"), ("1 2"));
    naturals(("1,2,3"), ("1,-2"), ("1,x"));
    position((&[1, 3, 5], 3), (&[1, 3, 5], 4), (&[], 1));
    insertion_sorted((&[3, 1, 2]), (&["b", "a"]), (&[2.5, -1.0]));
    merged(([&[1, 4], &[2, 3, 9], &[]]));
    quick((vec![]), (vec![3, -1, 3, 7, 0]));
    distances((&[(0, 1), (1, 2), (0, 3), (3, 2)], 5));
    queens((1), (6));
    life((&[(0, 0), (1, 0), (2, 0)].into()));
    knapsack((&[(3, 4), (4, 5), (2, 3)], 6));
    edits(("kitten", "sitting"), ("", "abc"));
    root((2.0), (144.0));
    polynomial((&[1.0, -2.0, 3.0], 2.0), (&[], 1.0));
    escapes((0.0, 0.0), (1.0, 1.0), (-0.7, 0.3));
    repeated(("knock"));
    determinant(([[1.0, 2.0, 3.0], [0.0, 1.0, 4.0], [5.0, 6.0, 0.0]]));
    transposed((&[vec![1, 2], vec![3, 4]]), (&[]));
    random((1), (42));
    roman((1994), (2026));
    fizzbuzz((15), (9), (10), (7), (8));
    areas(());
    counted_calls((0), (4));
    longest((&["a", "abc", "xyz"]), (&[]));
    overflowing((1, 2), (200, 100), (100, 100), (0, 9));
    doubled((&mut [1, 2, 3]));
    masked((0), (0xF0));
}

#[test]
fn async_function_gives_same_result() {
    assert_eq!(futures::executor::block_on(plain::later(7)), futures::executor::block_on(annotated::later(7)));
}
