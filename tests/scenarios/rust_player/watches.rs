//! Watches.
use super::{Outcome, Player, Step, named};
use crate::wire;
use pausewatch::client::Event;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::{sync::Mutex, time::timeout};

impl Player {
    pub(super) async fn watch(&self, step: &Step) -> Outcome {
        let name = step.text("watch").to_owned();
        match step.text("do") {
            "watch" => {
                let client = self.client(step)?;
                let thread_ids = step.0.get("thread_ids").and_then(Value::as_array);
                let mut watch = if thread_ids.is_some() { client.watch() } else { client.watch_all() };
                if step.is("include_elicitations") {
                    watch = watch.with_elicitations();
                }
                if step.is("observer") {
                    watch = watch.as_observer();
                }
                for thread_id in thread_ids.into_iter().flatten().filter_map(Value::as_str) {
                    watch.add(thread_id)?;
                }
                self.world().watches.insert(name, Arc::new(Mutex::new(watch)));
                Ok(json!({}))
            }
            "add" => {
                let watch = named(&self.world().watches, &name)?;
                watch.lock().await.add(step.text("thread_id"))?;
                Ok(json!({}))
            }
            "remove" => {
                let watch = named(&self.world().watches, &name)?;
                watch.lock().await.remove(step.text("thread_id"));
                Ok(json!({}))
            }
            "unwatch" => {
                self.world().watches.remove(&name);
                Ok(json!({}))
            }
            _ => {
                let watch = named(&self.world().watches, &name)?;
                let within = step.duration("within_ms").unwrap_or_default();
                let next = timeout(within, async { watch.lock().await.next().await }).await;
                Ok(next.map_or_else(|_| json!({"event": "nothing"}), event))
            }
        }
    }
}

fn event(event: Event) -> Value {
    match event {
        Event::State(update) => {
            let state = wire::state(&update.state);
            json!({"event": "state", "state": state, "gap": update.gap, "changed": update.changed})
        }
        Event::SnapshotComplete => json!({"event": "snapshot_complete"}),
        Event::Disconnected { .. } => json!({"event": "disconnected"}),
        _ => json!({"event": "unknown"}),
    }
}
