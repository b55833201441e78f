//! Holds. The `block` of this language is a scope: if an error leaves it, the guard is dropped.
use super::{Outcome, Player, Step, named};
use crate::player::Refusal;
use pausewatch::client::{Hold, HoldBuilder, Lease, Release};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

/// The state of a best-effort hold that could not be opened.
const NOT_OPEN: &str = "not_open";

/// An error of a program that does not come from the library.
struct OfItsOwn;

impl Player {
    pub(super) async fn hold(&self, step: &Step) -> Outcome {
        match step.text("do") {
            "hold" => {
                let hold = self.open(step).await?.map(Arc::new);
                self.world().holds.insert(step.text("hold").to_owned(), hold.clone());
                Ok(match hold {
                    Some(hold) => {
                        json!({"count": hold.opened().count, "elicitation_id": hold.elicitation().elicitation_id})
                    }
                    None => json!({}),
                })
            }
            "hold_block" => self.hold_block(step).await,
            op => match (op, self.held(step)?) {
                ("release", Some(hold)) => Ok(ending(hold.release().await?)),
                ("release", None) => Ok(json!({"ending": NOT_OPEN})),
                ("lost", Some(hold)) => Ok(json!({"lease": lease(hold.lost().await)})),
                (_, Some(hold)) => Ok(json!({"lease": lease(hold.lease())})),
                (_, None) => Ok(json!({"lease": NOT_OPEN})),
            },
        }
    }

    fn held(&self, step: &Step) -> Result<Option<Arc<Hold>>, Refusal> {
        named(&self.world().holds, step.text("hold"))
    }

    /// `None`: best effort, and there is no coordinator.
    async fn open(&self, step: &Step) -> Result<Option<Hold>, Refusal> {
        let hold = self.prepare(step)?;
        Ok(if step.is("best_effort") { hold.open_best_effort().await? } else { Some(hold.open().await?) })
    }

    async fn hold_block(&self, step: &Step) -> Outcome {
        let hold = self.open(step).await?;
        let stay = step.duration("stay_ms").unwrap_or_default();
        match block(hold, stay, step.is("throws")).await {
            Ok(released) => {
                let mut answer = released?.map_or_else(|| json!({"ending": NOT_OPEN}), ending);
                answer["left"] = "end".into();
                Ok(answer)
            }
            Err(OfItsOwn) => Ok(json!({"left": "error"})),
        }
    }

    fn prepare(&self, step: &Step) -> Result<HoldBuilder, Refusal> {
        let thread = match step.given("thread_id") {
            Some(thread) => thread,
            None => named(&self.world().threads, step.text("client"))?,
        };
        let mut hold = self.client(step)?.hold(thread).reason(step.text("reason"));
        if let Some(holder) = step.given("holder") {
            hold = hold.holder(holder);
        }
        if let Some(ttl) = step.duration("ttl_ms") {
            hold = hold.ttl(ttl);
        }
        Ok(hold)
    }
}

async fn block(hold: Option<Hold>, stay: Duration, throws: bool) -> Result<Result<Option<Release>, Refusal>, OfItsOwn> {
    sleep(stay).await;
    if throws {
        return Err(OfItsOwn);
    }
    Ok(match hold {
        Some(hold) => hold.release().await.map(Some).map_err(Refusal::from),
        None => Ok(None),
    })
}

fn ending(release: Release) -> Value {
    match release {
        Release::Closed { count, .. } => json!({"ending": "closed", "count": count}),
        Release::Expired => json!({"ending": "expired"}),
        Release::Released => json!({"ending": "released"}),
        Release::Unknown => json!({"ending": "unknown"}),
    }
}

fn lease(lease: Lease) -> &'static str {
    match lease {
        Lease::Held => "held",
        Lease::Overdue => "overdue",
        Lease::Expired => "expired",
        Lease::Released => "released",
        Lease::Unknown => "unknown",
    }
}
