//! Holds. The block of this language is a scope: what leaves it by an error drops the guard.
use super::{Outcome, Player, Step, named};
use crate::player::Refusal;
use pausewatch::client::{Hold, HoldBuilder, Lease, Release};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

/// The error of a program that has nothing to do with the library.
struct OfItsOwn;

impl Player {
    pub(super) async fn hold(&self, step: &Step) -> Outcome {
        match step.text("do") {
            "hold" => {
                let hold = self.prepare(step)?.open().await?;
                let (count, id) = (hold.opened().count, hold.elicitation().elicitation_id.clone());
                self.world().holds.insert(step.text("hold").to_owned(), Arc::new(hold));
                Ok(json!({"count": count, "elicitation_id": id}))
            }
            "release" => Ok(ending(self.held(step)?.release().await?)),
            "lease" => Ok(json!({"lease": lease(self.held(step)?.lease())})),
            "lost" => Ok(json!({"lease": lease(self.held(step)?.lost().await)})),
            _ => self.hold_block(step).await,
        }
    }

    async fn hold_block(&self, step: &Step) -> Outcome {
        let hold = self.prepare(step)?.open().await?;
        let stay = step.duration("stay_ms").unwrap_or_default();
        match block(hold, stay, step.is("throws")).await {
            Ok(released) => {
                let mut answer = ending(released?);
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

    fn held(&self, step: &Step) -> Result<Arc<Hold>, Refusal> {
        named(&self.world().holds, step.text("hold"))
    }
}

async fn block(hold: Hold, stay: Duration, throws: bool) -> Result<Result<Release, Refusal>, OfItsOwn> {
    sleep(stay).await;
    if throws {
        return Err(OfItsOwn);
    }
    Ok(hold.release().await.map_err(Refusal::from))
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
