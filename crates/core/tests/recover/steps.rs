//! Which steps of the plan are executed, and in which order.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use pollster::block_on;
use proptest::prelude::*;
use sexton_core::SessionId;
use sexton_core::recover::{Phase, Progress, Silent, Step, StepKind, observe, plan, recover};

use super::{Faults, Machine, any_faults, now, path, policy};

/// The steps of each session.
type Planned = Vec<(SessionId, Vec<StepKind>)>;
/// The executed steps of each session, and whether its work was saved at that time.
type Executed = BTreeMap<SessionId, Vec<(StepKind, bool)>>;

/// Notes every executed step.
struct Observer<'a> {
    machine: &'a Machine,
    executed: Mutex<Executed>,
}

impl Progress for Observer<'_> {
    fn wait_for_other(&self) {}

    fn begin(&self, _: Phase, _: usize) {}

    fn advance(&self) {}

    fn execute(&self, session: &SessionId, step: StepKind) {
        let is_saved = self.machine.cleaner.find_rescued(Path::new("/src"), session).is_some();
        self.executed.lock().unwrap().entry(session.clone()).or_default().push((step, is_saved));
    }
}

/// Recovers the machine; returns what was planned, and what was executed.
fn run(machine: &Machine) -> (Planned, Executed) {
    let sightings = block_on(observe(&machine.context(), &Silent)).unwrap();
    let planned = plan(&sightings, &policy(), now()).decisions.into_iter();
    let planned = planned
        .map(|decision| (decision.session.id, decision.steps.iter().map(Step::kind).collect()))
        .collect();
    let observer = Observer { machine, executed: Mutex::default() };
    block_on(recover(&machine.context(), &policy(), &observer)).unwrap();
    (planned, observer.executed.into_inner().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A session with an exit file is judged twice, so it is left out.
    #[test]
    fn i3_steps_are_executed_as_planned_and_nothing_is_removed_before_it_was_rescued(
        cases in prop::collection::vec((any_faults(), any::<bool>()), 1..6),
    ) {
        let machine = Machine::new();
        for (number, (faults, refuses)) in cases.iter().enumerate() {
            let id = format!("session{number}");
            Faults { exit: false, ..*faults }.apply(&machine, &id);
            if *refuses {
                machine.cleaner.refuse_rescue(&path(&id), "the disk is full");
            }
        }
        let (planned, mut executed) = run(&machine);
        for (id, planned) in planned {
            let executed = executed.remove(&id).unwrap_or_default();
            let kinds: Vec<_> = executed.iter().map(|(kind, _)| *kind).collect();
            let number: usize = id.as_str().trim_start_matches("session").parse().unwrap();
            let is_refused = cases[number].1 && planned.contains(&StepKind::Rescue);
            let expected: Vec<_> =
                planned.into_iter().filter(|kind| !(is_refused && *kind == StepKind::Remove)).collect();
            prop_assert_eq!(&kinds, &expected, "{}", id);
            prop_assert!(kinds.is_sorted());
            for (kind, is_saved) in executed {
                prop_assert!(kind != StepKind::Remove || is_saved, "{id} was removed before it was rescued");
            }
        }
        prop_assert!(executed.is_empty(), "{executed:?} was not planned");
    }
}
