//! Guides: grammars that an answer has to follow, compiled for one vocabulary, and the state that one
//! answer has in its grammar. llguidance does the work; here are the bounds on what a grammar may cost.

use std::sync::{mpsc, Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use llguidance::api::ParserLimits;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{
    parse_numeric_token, ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie,
};
use llguidance::{CancellationHandle, Matcher, ParserFactory};

use crate::ffi::{Failure, Outcome};
use crate::guide_grammar::{grammar_of, Kind};

/// Characters of the library's messages that are passed on.
const MAX_MESSAGE: usize = 600;
const REHEARSED_TOKENS: usize = 3;
/// What a rehearsal may take. It is some milliseconds for grammars as people write them.
const REHEARSAL_TIME: Duration = Duration::from_secs(5);
/// What compiling must have had of a processor where a late rehearsal is the guide's fault. With less,
/// the machine was at other things, the process stopped or held back.
const DEAR_TIME: Duration = Duration::from_millis(2500);
/// Compilers of hostile grammars recurse deeply; their memory is only touched if they do.
const COMPILE_STACK: usize = 64 << 20;

/// In the library's units. They bound memory, and the time of grammars that are read in one way. In an
/// ambiguous grammar an item may cost as much as all items before it, which the library does not count:
/// there whoever works with a state bounds its time (`State::cancel`).
fn limits() -> ParserLimits {
    ParserLimits {
        max_items_in_row: 2000,
        initial_lexer_fuel: 1_000_000,
        step_lexer_fuel: 200_000,
        step_max_items: 50_000,
        max_lexer_states: 20_000,  // of 1 to 2 kB, for each answer
        max_grammar_size: 200_000, // symbols
        precompute_large_lexemes: true,
        verbose_errors: false,
    }
}

/// A token as guides see it.
pub struct GuideToken<'a> {
    pub text: &'a [u8],
    pub bytes: &'a [u8],
    pub valid: bool,
    pub special: bool,
}

/// The vocabulary that masks are over.
pub struct Vocabulary {
    factory: ParserFactory,
    words: usize, // of 32 bits, of a mask
    eos: Vec<u32>,
}

impl Vocabulary {
    pub fn new(tokens: &[GuideToken], eos: &[u32]) -> Outcome<Self> {
        let fail = |error: &dyn std::fmt::Display| Failure::invalid(short(&error.to_string()));
        let Some(&first) = eos.first() else {
            return Err(Failure::invalid("there is no EOS token, with which answers end"));
        };
        if let Some(id) = eos.iter().find(|&&id| id as usize >= tokens.len()) {
            return Err(Failure::invalid(format!("EOS id {id} is beyond {} tokens", tokens.len())));
        }
        let words: Vec<Vec<u8>> = tokens.iter().map(spelling).collect();
        let info = TokRxInfo::new(tokens.len() as u32, first);
        let trie = TokTrie::from(&info, &words).with_eos_tokens(eos);
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let slices = SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &slices)
            .map_err(|error| fail(&error))?;
        factory.quiet();
        *factory.limits_mut() = limits();
        Ok(Vocabulary { factory, words: tokens.len().div_ceil(32), eos: eos.to_vec() })
    }

    /// Takes some milliseconds, for a hostile text seconds.
    pub fn compile(&self, kind: Kind, text: &str) -> Outcome<Guide> {
        let (rehearses, rehearsed) = mpsc::channel();
        let mut at_work = Vec::new();
        let compile = move || (self.compile_here(kind, text, &rehearses), time_of_this_thread());
        thread::scope(|scope| {
            let thread = thread::Builder::new().stack_size(COMPILE_STACK);
            let running = thread.spawn_scoped(scope, compile).map_err(|error| {
                Failure::busy(format!("there is no thread to compile it ({error})"))
            })?;
            let late = cancel_late(&rehearsed, &mut at_work);
            match running.join() {
                Err(_) => Err(Failure::invalid("it breaks the grammar compiler")),
                Ok((_, worked)) if late => Err(lateness(worked)),
                Ok((outcome, _)) => outcome,
            }
        })
    }

    fn compile_here(&self, kind: Kind, text: &str, rehearses: &Rehearses) -> Outcome<Guide> {
        let grammar = grammar_of(kind, text)?;
        let parser = Matcher::new(self.factory.create_parser(grammar));
        let mut matcher = announced(parser, rehearses);
        // Fills the lexer's tables for what every answer begins with.
        let mask = matcher.compute_mask().map_err(|error| refusal(&error.to_string()))?;
        if mask.is_zero() {
            return Err(Failure::invalid("no answer can follow it"));
        }
        let forces = can_force(announced(matcher.deep_clone(), rehearses));
        for pick in [Pick::Lowest, Pick::Highest] {
            rehearse(announced(matcher.deep_clone(), rehearses), forces, pick)?;
        }
        Ok(Guide { fresh: Mutex::new(matcher), forces, words: self.words, eos: self.eos.clone() })
    }
}

/// What this thread has had of a processor.
fn time_of_this_thread() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` may be written. The clock exists for as long as the thread.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Why there is no guide after a late rehearsal whose thread has `worked` so long.
fn lateness(worked: Duration) -> Failure {
    let limit = REHEARSAL_TIME.as_secs();
    if worked >= DEAR_TIME {
        return Failure::invalid(format!(
            "its first tokens take more than {limit} s to work out; make it simpler"
        ));
    }
    Failure::busy(format!(
        "its first tokens were not worked out in {limit} s, of which it had a processor for {} ms",
        worked.as_millis()
    ))
}

/// Takes what ends the work of each parser that rehearses, before it begins.
type Rehearses = mpsc::Sender<CancellationHandle>;

fn announced(matcher: Matcher, rehearses: &Rehearses) -> Matcher {
    let matcher = matcher.into_cancellable();
    if let Some(cancel) = matcher.cancellation_handle() {
        let _ = rehearses.send(cancel); // fails only where nobody waits for the guide any more
    }
    matcher
}

/// Waits until no parser rehearses any more, and ends those that do so for too long. Returns whether
/// there were such. What ends them is kept in `at_work` until their thread has been joined.
fn cancel_late(
    rehearsed: &mpsc::Receiver<CancellationHandle>,
    at_work: &mut Vec<CancellationHandle>,
) -> bool {
    let Ok(first) = rehearsed.recv() else { return false };
    let end = Instant::now() + REHEARSAL_TIME;
    at_work.push(first);
    loop {
        match rehearsed.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(cancel) => at_work.push(cancel),
            Err(mpsc::RecvTimeoutError::Disconnected) => return false,
            Err(mpsc::RecvTimeoutError::Timeout) => break,
        }
    }
    at_work.iter().for_each(CancellationHandle::cancel);
    for cancel in rehearsed {
        cancel.cancel();
        at_work.push(cancel);
    }
    true
}

enum Pick {
    Lowest,
    Highest,
}

/// Whether the library may be asked for the bytes that a grammar forces. Where a grammar counts tokens
/// (`max_tokens`) or leaves a text out that ended another (`stop`), what it finds ahead of the tokens
/// is not what it would find behind them, and it may panic. These are the grammars of which it takes
/// no token back.
fn can_force(mut matcher: Matcher) -> bool {
    let first = matcher.compute_mask().ok().and_then(|mask| mask.iter().next());
    first.is_some_and(|id| matcher.consume_token(id).is_ok() && matcher.rollback(1).is_ok())
}

/// Takes the first few tokens of an answer. What is too dear is often so from its beginning on, and
/// here it is refused before it costs anybody a step.
fn rehearse(mut matcher: Matcher, forces: bool, pick: Pick) -> Outcome<()> {
    let fail = |error: &dyn std::fmt::Display| refusal(&error.to_string());
    for _ in 0..REHEARSED_TOKENS {
        let mut next = special_at(&forced_bytes(&mut matcher, forces)?);
        if next.is_none() {
            let mask = matcher.compute_mask_or_eos().map_err(|error| fail(&error))?;
            let mut ids = mask.iter();
            next = match pick {
                Pick::Lowest => ids.next(),
                Pick::Highest => ids.last(),
            };
        }
        let Some(id) = next else { break };
        if matcher.is_stopped() {
            break;
        }
        matcher.consume_token(id).map_err(|error| fail(&error))?;
    }
    Ok(())
}

/// The bytes that every answer goes on with; none where these may not be asked for. The library has a
/// special token among them as its marker and "[id]".
fn forced_bytes(matcher: &mut Matcher, forces: bool) -> Outcome<Vec<u8>> {
    if !forces || matcher.is_stopped() {
        return Ok(Vec::new());
    }
    let bytes = matcher.compute_ff_bytes();
    match matcher.get_error() {
        Some(error) => Err(refusal(&error)),
        None => Ok(bytes),
    }
}

/// The special token with which forced bytes begin, if they do.
fn special_at(forced: &[u8]) -> Option<u32> {
    match forced.split_first() {
        Some((&TokTrie::SPECIAL_TOKEN_MARKER, id)) => parse_numeric_token(id).map(|(_, id)| id),
        _ => None,
    }
}

/// Special tokens are marked by a byte that no text has, so that no text of a grammar asks for them.
fn spelling(token: &GuideToken) -> Vec<u8> {
    let marker = TokTrie::SPECIAL_TOKEN_MARKER;
    if !token.valid {
        Vec::new()
    } else if token.special {
        [&[marker], token.text].concat()
    } else if token.bytes.first() == Some(&marker) {
        Vec::new() // no UTF-8 has this byte, and it would read as the marker
    } else {
        token.bytes.to_vec()
    }
}

/// The library's words without what it adds for its developers.
fn refusal(message: &str) -> Failure {
    let message = message.split("\n<").next().unwrap_or(message);
    if message.starts_with("NoExtension") {
        return Failure::invalid("no answer can follow it");
    }
    if message.starts_with("panic") {
        return Failure::invalid("it breaks the grammar compiler");
    }
    Failure::invalid(short(message))
}

fn short(message: &str) -> String {
    let message = message.trim();
    if message.chars().count() <= MAX_MESSAGE {
        return message.to_string();
    }
    message.chars().take(MAX_MESSAGE).chain(" …".chars()).collect()
}

/// A compiled grammar, from which answers begin.
pub struct Guide {
    fresh: Mutex<Matcher>, // that has taken no token
    forces: bool,          // it may be asked for forced bytes
    words: usize,
    eos: Vec<u32>,
}

impl Guide {
    /// The state of a new answer. States share nothing, so that what one answer costs or breaks
    /// never depends on others.
    pub fn start(&self) -> State {
        let fresh = self.fresh.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let matcher = fresh.deep_clone();
        State {
            cancel: matcher.cancellation_handle().unwrap_or_default(),
            matcher: Mutex::new(matcher),
            forces: self.forces,
            words: self.words,
            eos: self.eos.clone(),
        }
    }
}

/// Where one answer is in its grammar.
pub struct State {
    matcher: Mutex<Matcher>, // of who is at work; no other waits for it
    cancel: CancellationHandle,
    forces: bool,
    words: usize,
    eos: Vec<u32>,
}

impl State {
    /// Ends the work that is under way, and all that comes, in an error. Any thread may call it, and it
    /// does not wait.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    fn matcher(&self) -> MutexGuard<'_, Matcher> {
        self.matcher.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The bytes that every answer goes on with from here. They end before a special token, which has
    /// no bytes of its own.
    pub fn forced(&self) -> Outcome<Vec<u8>> {
        let mut bytes = forced_bytes(&mut self.matcher(), self.forces)?;
        if let Some(end) = bytes.iter().position(|&byte| byte == TokTrie::SPECIAL_TOKEN_MARKER) {
            bytes.truncate(end);
        }
        Ok(bytes)
    }

    /// Writes which ids may come next, a bit each, and returns whether none but EOS may.
    pub fn mask(&self, words: &mut [u32]) -> Outcome<bool> {
        if words.len() != self.words {
            return Err(Failure::invalid(format!(
                "a mask of {} words was asked for; the vocabulary has {}",
                words.len(),
                self.words
            )));
        }
        let mut matcher = self.matcher();
        if let Some(id) = special_at(&forced_bytes(&mut matcher, self.forces)?) {
            words.fill(0);
            words[id as usize / 32] = 1 << (id % 32);
            return Ok(self.eos.contains(&id));
        }
        let mask = matcher.compute_mask_or_eos().map_err(|error| refusal(&error.to_string()))?;
        words.copy_from_slice(&mask.as_slice()[..self.words]);
        let ends: u32 = self.eos.iter().map(|&id| words[id as usize / 32] >> (id % 32) & 1).sum();
        Ok(words.iter().map(|word| word.count_ones()).sum::<u32>() == ends)
    }

    /// Goes on by these tokens, each of which its mask allowed.
    pub fn take(&self, ids: &[u32]) -> Outcome<()> {
        self.matcher().consume_tokens(ids).map_err(|error| refusal(&error.to_string()))
    }
}
