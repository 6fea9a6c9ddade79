//! Futures that are polled together as long as there is room for them.

use std::task::{Context, Poll};

use datafusion::common::Result;
use futures::stream::{FuturesOrdered, FuturesUnordered};
use futures::{FutureExt, Stream, StreamExt};

/// Takes futures from a stream as long as there is room for more, and gives what they answer: in order
/// or as it comes. Either way it ends with the error of the earliest that fails.
///
/// Whoever makes room need not wake this stream: while there is none it has something on its way itself,
/// and looks again when that has come.
pub(super) fn bounded<F, T>(
    tasks: impl Stream<Item = F> + Send,
    ordered: bool,
    has_room: impl Fn(usize) -> bool + Send,
) -> impl Stream<Item = Result<T>> + Send
where
    F: Future<Output = Result<T>> + Send,
    T: Send,
{
    let numbered = tasks
        .enumerate()
        .map(|(number, task)| task.map(move |answer| (number, answer)));
    let mut tasks = Box::pin(numbered.fuse());
    let mut on_their_way = match ordered {
        true => OnTheirWay::InOrder(FuturesOrdered::new()),
        false => OnTheirWay::AsTheyCome(FuturesUnordered::new()),
    };
    let mut earliest_error = None;
    futures::stream::poll_fn(move |context| {
        while earliest_error.is_none() && has_room(on_their_way.len()) {
            match tasks.as_mut().poll_next(context) {
                Poll::Ready(Some(task)) => on_their_way.push(task),
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        loop {
            match on_their_way.poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => {
                    return match earliest_error.take() {
                        Some((_, error)) => Poll::Ready(Some(Err(error))),
                        None if tasks.is_done() => Poll::Ready(None),
                        None => Poll::Pending,
                    };
                }
                Poll::Ready(Some((number, Err(error)))) => {
                    if ordered {
                        return Poll::Ready(Some(Err(error)));
                    }
                    // All that came before it are on their way, and may still fail.
                    if earliest_error.as_ref().is_none_or(|(n, _)| number < *n) {
                        earliest_error = Some((number, error));
                    }
                }
                Poll::Ready(Some((_, Ok(answer)))) if earliest_error.is_none() => {
                    return Poll::Ready(Some(Ok(answer)));
                }
                Poll::Ready(Some((_, Ok(_)))) => {}
            }
        }
    })
}

/// Futures that have been taken.
enum OnTheirWay<F: Future> {
    InOrder(FuturesOrdered<F>),
    AsTheyCome(FuturesUnordered<F>),
}

impl<F: Future> OnTheirWay<F> {
    fn len(&self) -> usize {
        match self {
            OnTheirWay::InOrder(futures) => futures.len(),
            OnTheirWay::AsTheyCome(futures) => futures.len(),
        }
    }

    fn push(&mut self, future: F) {
        match self {
            OnTheirWay::InOrder(futures) => futures.push_back(future),
            OnTheirWay::AsTheyCome(futures) => futures.push(future),
        }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<F::Output>> {
        match self {
            OnTheirWay::InOrder(futures) => futures.poll_next_unpin(context),
            OnTheirWay::AsTheyCome(futures) => futures.poll_next_unpin(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use datafusion::common::exec_datafusion_err;
    use futures::executor::block_on;
    use futures::future;

    use super::*;

    /// Gives each answer after it was polled so many times.
    fn tasks(
        answers: Vec<(u32, Result<u32>)>,
    ) -> impl Stream<Item = future::BoxFuture<'static, Result<u32>>> + Send {
        futures::stream::iter(answers.into_iter().map(|(polls, answer)| {
            let (mut left, mut answer) = (polls, Some(answer));
            future::poll_fn(move |context| match left {
                0 => Poll::Ready(answer.take().expect("polled once more")),
                _ => {
                    left -= 1;
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
            })
            .boxed()
        }))
    }

    fn answered(ordered: bool, answers: Vec<(u32, Result<u32>)>) -> Vec<Result<u32, String>> {
        let stream = bounded(tasks(answers), ordered, |n| n < 3);
        block_on(stream.map(|a| a.map_err(|e| e.to_string())).collect())
    }

    #[test]
    fn answers_keep_their_order_or_come_as_they_are_ready() {
        let answers = || vec![(9, Ok(0)), (1, Ok(1)), (2, Ok(2)), (0, Ok(3))];
        assert_eq!(answered(true, answers()), [0, 1, 2, 3].map(Ok));
        let unordered = answered(false, answers());
        assert_eq!(unordered.last(), Some(&Ok(0)));
        assert_eq!(unordered.len(), 4);
    }

    #[test]
    fn the_earliest_failure_is_the_one_that_is_told() {
        for ordered in [true, false] {
            let fail = |n: u32| Err(exec_datafusion_err!("task {n}"));
            let answers = vec![(9, fail(0)), (0, fail(1)), (0, Ok(2)), (0, Ok(3))];
            let told = answered(ordered, answers);
            let first = told.iter().find_map(|a| a.as_ref().err());
            assert!(first.is_some_and(|e| e.contains("task 0")), "{told:?}");
        }
    }

    #[test]
    fn no_more_are_taken_than_there_is_room_for() {
        let most = AtomicUsize::new(0);
        let stream = bounded(tasks(Vec::new()), true, |_| true);
        assert_eq!(block_on(stream.count()), 0);
        let answers = (0..20).map(|n| (n % 4, Ok(n))).collect();
        let stream = bounded(tasks(answers), true, |n| {
            most.fetch_max(n, Ordering::Relaxed);
            n < 3
        });
        assert_eq!(block_on(stream.count()), 20);
        assert_eq!(most.load(Ordering::Relaxed), 3);
    }
}
