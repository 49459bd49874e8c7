//! Prints all rows as a table, with a line for each workload and a column for each thread count.

use crate::common::Row;

pub(crate) fn print(rows: &[Row]) {
    let mut threads: Vec<usize> = rows.iter().map(|row| row.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    let same = |a: &Row, b: &Row| (a.workload, &a.variant, &a.library) == (b.workload, &b.variant, &b.library);
    let mut lines: Vec<&Row> = Vec::new();
    for row in rows {
        if !lines.iter().any(|line| same(line, row)) {
            lines.push(row);
        }
    }
    let heads: String =
        threads.iter().map(|&threads| format!("{threads:>6} thread{}", if threads == 1 { " " } else { "s" })).collect();
    println!("\n{:<44}{heads}", "");
    for line in lines {
        let values: String = threads
            .iter()
            .map(|&threads| match rows.iter().find(|row| row.threads == threads && same(row, line)) {
                Some(row) => format!("{:>14.2}", row.value),
                None => format!("{:>14}", "–"),
            })
            .collect();
        let name = format!("{} {} ({})", line.workload, line.variant, line.library);
        println!("{name:<44}{values} {}", line.unit);
    }
}
