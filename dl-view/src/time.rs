//! Self times of spans.

use dl_core::record::Span;
use std::time::Duration;

/// The self time of each span: its duration without that of nested spans of the same thread.
pub(crate) fn self_times<'a>(spans: impl IntoIterator<Item = &'a Span>) -> Vec<Duration> {
    let spans: Vec<&Span> = spans.into_iter().collect();
    let mut times: Vec<Duration> = spans.iter().map(|span| span.ended.saturating_sub(span.began)).collect();
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by_key(|&span| (spans[span].thread, spans[span].began, std::cmp::Reverse(spans[span].ended)));
    let mut open: Vec<usize> = Vec::new();
    for span in order {
        let encloses =
            |&outer: &usize| spans[outer].thread == spans[span].thread && spans[span].ended <= spans[outer].ended;
        while open.last().is_some_and(|outer| !encloses(outer)) {
            open.pop();
        }
        if let Some(&outer) = open.last() {
            let inner = spans[span].ended.saturating_sub(spans[span].began);
            times[outer] = times[outer].saturating_sub(inner);
        }
        open.push(span);
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use dl_core::record::SpanWork;

    #[test]
    fn self_time_excludes_nested_spans() {
        let span = |thread, began, ended| Span {
            work: SpanWork::Kernel,
            node: None,
            thread,
            began: Duration::from_nanos(began),
            ended: Duration::from_nanos(ended),
        };
        // Out of order, with a second thread in parallel; one span begins and ends with its parent.
        let spans =
            [span(0, 20, 30), span(0, 0, 100), span(1, 10, 60), span(0, 20, 40), span(0, 100, 110), span(0, 40, 41)];
        let times: Vec<u128> = self_times(&spans).iter().map(Duration::as_nanos).collect();
        assert_eq!(times, [10, 79, 50, 10, 10, 1]);
    }
}
