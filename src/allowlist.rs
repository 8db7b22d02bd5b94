//! A policy and the plugins of one group in, a verdict on each out, before anything of them is imported.
//!
//! Pure functions. Two readings of a list: vLLM's (exact names, nothing stripped) and our own (blanks stripped, globs,
//! `!` denies, `dist:` names a distribution). Knows no environment, no file and no interpreter.

use std::collections::HashMap;

use glob::Pattern as Glob;

use crate::name::NormalizedName;

/// How lists are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// As vLLM reads `VLLM_PLUGINS`: split at commas, names compared exactly.
    Vllm,
    /// Blanks stripped, globs, `!` and `dist:` understood.
    Own,
}

/// What happens to several distributions that offer one name in one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collision {
    /// The first in discovery order counts.
    First,
    /// The last one counts, and stands where it stands; in vLLM's reading where the first one stood, as in its dict.
    Last,
    /// It is a fault of the policy: nothing is loaded.
    Error,
    /// All of them count.
    All,
}

/// One plugin that is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The entry point's name.
    pub name: &'a str,
    /// The project's name, in any spelling.
    pub distribution: &'a str,
}

/// One entry of a list.
#[derive(Clone, Debug)]
struct Entry {
    text: String,
    glob: Glob,
    by_distribution: bool,
}

impl Entry {
    fn exact(text: &str) -> Self {
        let glob = Glob::new(&Glob::escape(text)).unwrap_or_default();
        Self {
            text: text.to_owned(),
            glob,
            by_distribution: false,
        }
    }

    /// `written` is the whole entry, `text` what is left of it without the `!` of a denial.
    fn own(text: &str, written: &str) -> Result<Self, BadPattern> {
        let bad = |reason: &str| BadPattern {
            entry: written.to_owned(),
            reason: reason.to_owned(),
        };
        let (by_distribution, pattern) = match text.strip_prefix("dist:") {
            Some(rest) => (true, NormalizedName::new(rest.trim()).as_str().to_owned()),
            None => (false, text.to_owned()),
        };
        if pattern.is_empty() {
            // it would match nothing, and a denial that denies nothing lets everything in
            return Err(bad("it names nothing"));
        }
        let glob = Glob::new(&pattern).map_err(|error| bad(error.msg))?;
        Ok(Self {
            text: text.to_owned(),
            glob,
            by_distribution,
        })
    }

    fn matches(&self, candidate: Candidate<'_>) -> bool {
        if self.by_distribution {
            self.glob.matches(NormalizedName::new(candidate.distribution).as_str())
        } else {
            self.glob.matches(candidate.name)
        }
    }
}

/// An entry of a list that is no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPattern {
    /// The entry.
    pub entry: String,
    /// What is wrong with it.
    pub reason: String,
}

/// An allowlist and a denylist from one source.
#[derive(Clone, Debug)]
pub struct List {
    /// Where it comes from, for people: a variable, a file and line, "code".
    pub origin: String,
    allow: Option<Vec<Entry>>,
    deny: Vec<Entry>,
}

impl List {
    /// A list from its entries; `None` allows all.
    ///
    /// # Errors
    /// An entry that is no pattern (own reading only).
    pub fn new(reading: Reading, origin: &str, allow: Option<&[String]>, deny: &[String]) -> Result<Self, BadPattern> {
        let mut list = Self {
            origin: origin.to_owned(),
            allow: None,
            deny: Vec::new(),
        };
        if reading == Reading::Vllm {
            list.allow = allow.map(|entries| entries.iter().map(|entry| Entry::exact(entry)).collect());
            list.deny = deny.iter().map(|entry| Entry::exact(entry)).collect();
            return Ok(list);
        }
        for entry in deny.iter().map(|entry| entry.trim()).filter(|entry| !entry.is_empty()) {
            list.deny
                .push(Entry::own(entry.strip_prefix('!').unwrap_or(entry).trim(), entry)?);
        }
        let Some(allow) = allow else { return Ok(list) };
        let (mut allowed, mut denies_only) = (Vec::new(), !allow.is_empty());
        for entry in allow.iter().map(|entry| entry.trim()) {
            if let Some(denied) = entry.strip_prefix('!') {
                list.deny.push(Entry::own(denied.trim(), entry)?);
                continue;
            }
            denies_only = false;
            if !entry.is_empty() {
                allowed.push(Entry::own(entry, entry)?);
            }
        }
        // "all but these" names nothing that is allowed
        list.allow = (!denies_only).then_some(allowed);
        Ok(list)
    }
}

/// What may be loaded, in which order, and what is done about doubles.
#[derive(Clone, Debug)]
pub struct Policy {
    /// How names are matched in hints.
    pub reading: Reading,
    /// For every group.
    pub base: List,
    /// For one group each: their allowlists take the place of the base's, their denials are added.
    pub groups: Vec<(String, List)>,
    /// Groups of which nothing is loaded unless a list names it.
    pub explicit_only: Vec<String>,
    /// Names that have to be there and allowed.
    pub require: Vec<String>,
    /// Names that come first, in this order.
    pub order: Vec<String>,
    /// What is done about doubles.
    pub collision: Collision,
}

/// Why a plugin may be loaded or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No list restricts the group.
    Open,
    /// A list names it.
    Listed,
    /// A list is there and does not name it.
    NotListed,
    /// A list is there and allows nothing at all.
    NothingAllowed,
    /// A denial names it.
    Denied,
    /// Its group is explicit-only, and nothing names it.
    ExplicitOnly,
    /// Its name is empty.
    EmptyName,
    /// Another distribution's plugin of the same name counts instead.
    Collision,
}

impl Reason {
    /// The stable word for it.
    #[must_use]
    pub fn slug(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Listed => "listed",
            Self::NotListed => "not-listed",
            Self::NothingAllowed => "nothing-allowed",
            Self::Denied => "denied",
            Self::ExplicitOnly => "explicit-only",
            Self::EmptyName => "empty-name",
            Self::Collision => "collision",
        }
    }

    /// Whether it lets the plugin in.
    #[must_use]
    pub fn allows(self) -> bool {
        matches!(self, Self::Open | Self::Listed)
    }
}

/// The verdict on one candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Why.
    pub reason: Reason,
    /// The rule that decided, in one sentence.
    pub rule: String,
}

/// The rule that an entry belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// What may be loaded.
    Allow,
    /// What may not.
    Deny,
    /// What comes first.
    Order,
}

/// An entry of a rule that names nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmatched {
    /// The rule.
    pub rule: Rule,
    /// The entry, as written; with `!` in front if it denies.
    pub entry: String,
    /// Where it stands.
    pub origin: String,
    /// The installed name that it resembles most.
    pub near: Option<String>,
    /// The two differ by blanks or case only.
    pub only_spelling: bool,
}

/// One name that several distributions offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubled {
    /// The name.
    pub name: String,
    /// The candidates' numbers, in discovery order.
    pub candidates: Vec<usize>,
}

/// The judgement on one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// For each candidate.
    pub verdicts: Vec<Verdict>,
    /// The numbers of those that are allowed, in the order in which to load them.
    pub order: Vec<usize>,
    /// Entries that name nothing installed.
    pub unmatched: Vec<Unmatched>,
    /// Required names that are not among the allowed ones.
    pub missing: Vec<String>,
    /// Allowed names that several distributions offer.
    pub doubled: Vec<Doubled>,
}

impl Policy {
    /// Judges all plugins of a group. `elsewhere` are the names that other groups offer: one list may serve many groups.
    #[must_use]
    pub fn judge(&self, group: &str, candidates: &[Candidate<'_>], elsewhere: &[&str]) -> Judgement {
        let own = self.groups.iter().find(|(name, _)| name == group).map(|(_, list)| list);
        let list = own.filter(|list| list.allow.is_some()).unwrap_or(&self.base);
        let mut verdicts: Vec<Verdict> = (candidates.iter())
            .map(|candidate| self.judge_one(group, list, own, *candidate))
            .collect();
        let doubled = self.settle_doubles(candidates, &mut verdicts);
        let mut order: Vec<usize> = (0..candidates.len())
            .filter(|number| verdicts[*number].reason.allows())
            .collect();
        let keeps_first_place = self.reading == Reading::Vllm && self.collision == Collision::Last;
        let place = |number: &usize| {
            let name = candidates[*number].name;
            let wanted = self.order.iter().position(|wanted| wanted == name);
            let mut stands_at = *number;
            if keeps_first_place && let Some(double) = doubled.iter().find(|double| double.name == name) {
                stands_at = double.candidates[0];
            }
            (wanted.unwrap_or(self.order.len()), stands_at)
        };
        order.sort_by_key(place);
        let missing = (self.require.iter())
            .filter(|name| !order.iter().any(|number| candidates[*number].name == **name))
            .cloned()
            .collect();
        Judgement {
            unmatched: self.unmatched(list, own, candidates, elsewhere),
            verdicts,
            order,
            missing,
            doubled,
        }
    }

    /// Whether some list names a distribution, so that what distributions are called matters.
    pub fn names_distributions(&self) -> bool {
        let lists = self.groups.iter().map(|(_, list)| list).chain([&self.base]);
        let mut entries = lists.flat_map(|list| list.allow.iter().flatten().chain(&list.deny));
        entries.any(|entry| entry.by_distribution)
    }

    fn judge_one(&self, group: &str, list: &List, own: Option<&List>, candidate: Candidate<'_>) -> Verdict {
        let origin = &list.origin;
        let verdict = |reason, rule| Verdict { reason, rule };
        if candidate.name.trim().is_empty() {
            return verdict(
                Reason::EmptyName,
                "its name is empty, so no list can name it".to_owned(),
            );
        }
        for denying in own.into_iter().chain([&self.base]) {
            if let Some(entry) = denying.deny.iter().find(|entry| entry.matches(candidate)) {
                let rule = format!("`!{}` in {} denies it", entry.text, denying.origin);
                return verdict(Reason::Denied, rule);
            }
        }
        match &list.allow {
            None if self.explicit_only.iter().any(|name| name == group) => {
                let rule = format!("`{group}` is explicit-only, and {origin} names nothing");
                verdict(Reason::ExplicitOnly, rule)
            }
            None => verdict(Reason::Open, format!("{origin} restricts nothing")),
            Some(allowed) => match allowed.iter().find(|entry| entry.matches(candidate)) {
                Some(entry) => verdict(Reason::Listed, format!("`{}` in {origin} allows it", entry.text)),
                None if allowed.iter().all(|entry| entry.text.is_empty()) => verdict(
                    Reason::NothingAllowed,
                    format!("{origin} is an empty list, which allows nothing"),
                ),
                None => verdict(Reason::NotListed, format!("it is not on the allowlist in {origin}")),
            },
        }
    }

    /// Finds allowed names that occur more than once and takes back all but those that count.
    fn settle_doubles(&self, candidates: &[Candidate<'_>], verdicts: &mut [Verdict]) -> Vec<Doubled> {
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        for (number, candidate) in candidates.iter().enumerate() {
            if verdicts[number].reason.allows() {
                by_name.entry(candidate.name).or_default().push(number);
            }
        }
        let mut doubled: Vec<Doubled> = (by_name.into_iter())
            .filter(|(_, numbers)| numbers.len() > 1)
            .map(|(name, candidates)| Doubled {
                name: name.to_owned(),
                candidates,
            })
            .collect();
        doubled.sort_by_key(|double| double.candidates[0]);
        for double in &doubled {
            let winner = match self.collision {
                Collision::First => double.candidates.first(),
                Collision::Last => double.candidates.last(),
                Collision::Error | Collision::All => None,
            };
            let Some(winner) = winner.copied() else { continue };
            for number in double.candidates.iter().filter(|number| **number != winner) {
                let which = if self.collision == Collision::First {
                    "first"
                } else {
                    "last"
                };
                let rule = format!(
                    "of several plugins `{}` the {which} one counts, that of {}",
                    double.name, candidates[winner].distribution
                );
                verdicts[*number] = Verdict {
                    reason: Reason::Collision,
                    rule,
                };
            }
        }
        doubled
    }

    /// The entries of all rules for a group that name nothing, with what they may have meant. An idle denial is told
    /// as well as an idle permission: with a slip in it, it lets in what it was to keep out.
    fn unmatched(
        &self,
        list: &List,
        own: Option<&List>,
        candidates: &[Candidate<'_>],
        elsewhere: &[&str],
    ) -> Vec<Unmatched> {
        let other = |name| Candidate { name, distribution: "" };
        let idle = |entry: &Entry| {
            !entry.text.is_empty()
                && !candidates.iter().any(|candidate| entry.matches(*candidate))
                && !elsewhere.iter().any(|name| entry.matches(other(name)))
        };
        let allowed = (list.allow.iter().flatten()).map(|entry| (Rule::Allow, entry.clone(), list.origin.clone()));
        let denying = own.into_iter().chain([&self.base]);
        let denied =
            denying.flat_map(|list| (list.deny.iter()).map(|entry| (Rule::Deny, entry.clone(), list.origin.clone())));
        let ordered = (self.order.iter()).map(|name| {
            let origin = format!("`order` of {}", self.base.origin);
            (Rule::Order, Entry::exact(name), origin)
        });
        (allowed.chain(denied).chain(ordered))
            .filter(|(_, entry, _)| idle(entry))
            .map(|(rule, entry, origin)| told(rule, &entry, origin, candidates, elsewhere))
            .collect()
    }
}

fn told(rule: Rule, entry: &Entry, origin: String, candidates: &[Candidate<'_>], elsewhere: &[&str]) -> Unmatched {
    let text = entry.text.as_str();
    let near = if entry.by_distribution {
        nearest(
            &text["dist:".len()..],
            candidates.iter().map(|candidate| candidate.distribution),
        )
    } else {
        let names = candidates.iter().map(|candidate| candidate.name);
        nearest(text, names.chain(elsewhere.iter().copied()))
    };
    let wanted = text.trim_start_matches("dist:");
    Unmatched {
        rule,
        entry: if rule == Rule::Deny {
            format!("!{text}")
        } else {
            text.to_owned()
        },
        origin,
        only_spelling: near.is_some_and(|near| same_but_for_spelling(wanted, near)),
        near: near.map(ToOwned::to_owned),
    }
}

fn same_but_for_spelling(one: &str, two: &str) -> bool {
    one.trim().to_lowercase() == two.trim().to_lowercase()
}

/// The name that a mistyped one resembles most; at most a third of it may differ.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let clean = |text: &str| text.trim().to_lowercase();
    let target = clean(wanted);
    let most = (target.chars().count() / 3).max(1);
    names
        .map(|name| (strsim::osa_distance(&target, &clean(name)), name))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(',').map(ToOwned::to_owned).collect()
    }

    fn policy(reading: Reading, allow: Option<&str>, deny: &[&str]) -> Policy {
        let deny: Vec<String> = deny.iter().map(ToString::to_string).collect();
        let allow = allow.map(words);
        Policy {
            reading,
            base: List::new(reading, "DEMO_PLUGINS", allow.as_deref(), &deny).unwrap(),
            groups: Vec::new(),
            explicit_only: Vec::new(),
            require: Vec::new(),
            order: Vec::new(),
            collision: Collision::First,
        }
    }

    fn candidates<'a>(names: &[&'a str]) -> Vec<Candidate<'a>> {
        names
            .iter()
            .map(|name| match name.split_once('@') {
                Some((name, distribution)) => Candidate { name, distribution },
                None => Candidate {
                    name,
                    distribution: "some",
                },
            })
            .collect()
    }

    fn loaded(policy: &Policy, names: &[&str]) -> Vec<String> {
        let found = candidates(names);
        let judgement = policy.judge("g", &found, &[]);
        (judgement.order.iter())
            .map(|number| format!("{}@{}", found[*number].name, found[*number].distribution).replace("@some", ""))
            .collect()
    }

    #[test]
    fn vllm_reads_names_exactly_as_its_table_says() {
        let table: [(Option<&str>, &[&str]); 10] = [
            (None, &["x", "y"]),
            (Some(""), &[]),
            (Some(","), &[]),
            (Some("x"), &["x"]),
            (Some(" x"), &[]),
            (Some("x, y"), &["x"]),
            (Some("x,,y"), &["x", "y"]),
            (Some("X"), &[]),
            (Some("x,nope"), &["x"]),
            (Some("*"), &[]),
        ];
        for (list, expected) in table {
            let policy = policy(Reading::Vllm, list, &[]);
            assert_eq!(loaded(&policy, &["x", "y"]), expected, "{list:?}");
            assert_eq!(
                loaded(&policy, &["x", "", "y"]),
                expected,
                "{list:?}: an empty name is never let in"
            );
        }
    }

    #[test]
    fn our_reading_strips_blanks_and_knows_globs_and_distributions() {
        let table: [(Option<&str>, &[&str]); 9] = [
            (None, &["x", "y", "z1@Beta.Tools"]),
            (Some(""), &[]),
            (Some(" , "), &[]),
            (Some(" x, y"), &["x", "y"]),
            (Some("X"), &[]),
            (Some("?"), &["x", "y"]),
            (Some("z*, y"), &["y", "z1@Beta.Tools"]),
            (Some("dist:beta_tools"), &["z1@Beta.Tools"]),
            (Some("!y"), &["x", "z1@Beta.Tools"]),
        ];
        for (list, expected) in table {
            assert_eq!(
                loaded(&policy(Reading::Own, list, &[]), &["x", "y", "z1@Beta.Tools"]),
                expected,
                "{list:?}"
            );
        }
    }

    #[test]
    fn a_denial_wins_and_names_itself() {
        let policy = policy(Reading::Own, Some("a,b"), &["dist:beta-tools"]);
        let found = candidates(&["a", "b@beta.tools"]);
        let judgement = policy.judge("g", &found, &[]);
        assert_eq!(judgement.order, [0]);
        assert_eq!(judgement.verdicts[1].reason, Reason::Denied);
        assert_eq!(
            judgement.verdicts[1].rule,
            "`!dist:beta-tools` in DEMO_PLUGINS denies it"
        );
        assert_eq!(judgement.verdicts[0].rule, "`a` in DEMO_PLUGINS allows it");
    }

    #[test]
    fn a_groups_own_list_replaces_the_allowlist_and_adds_its_denials() {
        let mut policy = policy(Reading::Own, Some("a"), &["c"]);
        let own = List::new(Reading::Own, "vplug.toml:3", Some(&words("b,c")), &[]).unwrap();
        policy.groups.push(("g".to_owned(), own));
        assert_eq!(loaded(&policy, &["a", "b", "c"]), ["b"]);
        let elsewhere = policy.judge("h", &candidates(&["a", "b", "c"]), &[]);
        assert_eq!(elsewhere.order, [0]);
    }

    #[test]
    fn an_explicit_only_group_needs_a_name() {
        let mut open = policy(Reading::Own, None, &[]);
        open.explicit_only.push("g".to_owned());
        assert_eq!(
            open.judge("g", &candidates(&["x"]), &[]).verdicts[0].reason,
            Reason::ExplicitOnly
        );
        let mut named = policy(Reading::Own, Some("x"), &[]);
        named.explicit_only.push("g".to_owned());
        assert_eq!(loaded(&named, &["x", "y"]), ["x"]);
    }

    #[test]
    fn names_that_match_nothing_are_told_with_the_nearest_one() {
        let judged = |reading, list| policy(reading, Some(list), &[]).judge("g", &candidates(&["good", "Y"]), &["far"]);
        let told = |judgement: Judgement| {
            (judgement.unmatched.into_iter())
                .map(|entry| (entry.entry, entry.near.unwrap_or_default(), entry.only_spelling))
                .collect::<Vec<_>>()
        };
        let own = |entry: &str, near: &str, spelling| (entry.to_owned(), near.to_owned(), spelling);
        assert_eq!(
            told(judged(Reading::Own, "good,goood,far")),
            [own("goood", "good", false)]
        );
        assert_eq!(told(judged(Reading::Own, " good, y")), [own("y", "Y", true)]);
        assert_eq!(
            told(judged(Reading::Vllm, " good, Y")),
            [own(" good", "good", true), own(" Y", "Y", true)]
        );
        assert_eq!(told(judged(Reading::Own, "unlike-all")), [own("unlike-all", "", false)]);
        assert_eq!(told(judged(Reading::Own, "q*")), [own("q*", "", false)]);
    }

    #[test]
    fn doubles_are_settled_as_the_policy_says_and_always_told() {
        let names = ["x@one", "y", "x@two"];
        for (collision, expected) in [
            (Collision::First, vec!["x@one", "y"]),
            (Collision::Last, vec!["y", "x@two"]),
            (Collision::All, vec!["x@one", "y", "x@two"]),
            (Collision::Error, vec!["x@one", "y", "x@two"]),
        ] {
            let policy = Policy {
                collision,
                ..policy(Reading::Own, None, &[])
            };
            assert_eq!(loaded(&policy, &names), expected, "{collision:?}");
            let judgement = policy.judge("g", &candidates(&names), &[]);
            assert_eq!(judgement.doubled[0].candidates, [0, 2]);
        }
        let denied = policy(Reading::Own, None, &["dist:two"]);
        assert!(denied.judge("g", &candidates(&names), &[]).doubled.is_empty());
    }

    #[test]
    fn an_order_puts_the_named_first_and_leaves_the_rest() {
        let mut policy = policy(Reading::Own, None, &[]);
        policy.order = words("c,gone,a");
        assert_eq!(loaded(&policy, &["a", "b", "c", "d"]), ["c", "a", "b", "d"]);
    }

    #[test]
    fn what_is_required_has_to_be_there_and_allowed() {
        let mut policy = policy(Reading::Own, Some("a"), &[]);
        policy.require = words("a,b,absent");
        assert_eq!(
            policy.judge("g", &candidates(&["a", "b"]), &[]).missing,
            ["b", "absent"]
        );
    }

    #[test]
    fn entries_of_every_rule_that_match_nothing_are_told() {
        let mut policy = policy(Reading::Own, None, &["telemetri", "far", "dist:acmee"]);
        let own = List::new(Reading::Own, "code, group `g`", None, &words("gone")).unwrap();
        policy.groups.push(("g".to_owned(), own));
        policy.order = words("telemetry,lost,far");
        let judgement = policy.judge("g", &candidates(&["telemetry@acme"]), &["far"]);
        let told: Vec<_> = (judgement.unmatched.iter())
            .map(|entry| {
                (
                    entry.rule,
                    &*entry.entry,
                    &*entry.origin,
                    entry.near.as_deref().unwrap_or(""),
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                (Rule::Deny, "!gone", "code, group `g`", ""),
                (Rule::Deny, "!telemetri", "DEMO_PLUGINS", "telemetry"),
                (Rule::Deny, "!dist:acmee", "DEMO_PLUGINS", "acme"),
                (Rule::Order, "lost", "`order` of DEMO_PLUGINS", ""),
            ]
        );
    }

    #[test]
    fn of_doubles_vllm_keeps_the_first_place_and_the_last_value() {
        let names = ["x@one", "y", "x@two", "z", "y@late"];
        let policy = Policy {
            collision: Collision::Last,
            ..policy(Reading::Vllm, None, &[])
        };
        assert_eq!(loaded(&policy, &names), ["x@two", "y@late", "z"]);
        let judgement = policy.judge("g", &candidates(&names), &[]);
        assert_eq!(judgement.verdicts[0].reason, Reason::Collision);
        assert_eq!(judgement.doubled.len(), 2);
    }

    #[test]
    fn an_entry_that_is_empty_behind_its_prefix_is_refused() {
        for entry in ["!", " ! ", "dist:", "dist: ", "!dist:"] {
            let error = List::new(Reading::Own, "code", Some(&words(entry)), &[]).unwrap_err();
            assert_eq!((&*error.entry, &*error.reason), (entry.trim(), "it names nothing"));
        }
        assert!(List::new(Reading::Own, "code", None, &words("!")).is_err());
        assert!(List::new(Reading::Vllm, "code", Some(&words("!,dist:")), &[]).is_ok());
    }

    #[test]
    fn an_entry_that_is_no_pattern_is_refused() {
        let error = List::new(Reading::Own, "code", Some(&words("a,[b")), &[]).unwrap_err();
        assert_eq!(error.entry, "[b");
        assert!(List::new(Reading::Vllm, "code", Some(&words("a,[b")), &[]).is_ok());
    }
}
