//! The RPCs.
use super::{Outcome, Player, Step, mistake};
use crate::wire;
use pausewatch::client::{
    DecrementElicitationRequest, GetPauseStateRequest, IncrementElicitationRequest, ListPauseStatesRequest,
    ListPausesRequest, RenewElicitationRequest,
};
use serde_json::{Value, json};

impl Player {
    pub(super) async fn call(&self, step: &Step) -> Outcome {
        let client = self.client(step)?;
        let text = |key: &str| step.text(key).to_owned();
        let (thread_id, request_id) = (text("thread_id"), text("request_id"));
        let ttl = step.number("ttl_ms").map(wire::wire_duration);
        Ok(match step.text("do") {
            "increment" => {
                let (reason, holder) = (text("reason"), text("holder"));
                let request = IncrementElicitationRequest { thread_id, request_id, reason, holder, ttl };
                wire::opened(&client.increment_elicitation(request).await?)
            }
            "decrement" => {
                let elicitation_id = step.given("elicitation_id");
                let request = DecrementElicitationRequest { thread_id, elicitation_id, request_id };
                wire::closed(&client.decrement_elicitation(request).await?)
            }
            "renew" => {
                let request = RenewElicitationRequest { thread_id, elicitation_id: text("elicitation_id"), ttl };
                let elicitation = client.renew_elicitation(request).await?.elicitation;
                wire::elicitation(&elicitation.ok_or_else(|| mistake("no elicitation in the answer".to_owned()))?)
            }
            "get" => {
                let state = client.get_pause_state(GetPauseStateRequest { thread_id }).await?.pause_state;
                wire::state(&state.ok_or_else(|| mistake("no state in the answer".to_owned()))?)
            }
            "list_pauses" => {
                let page_size = step.number("page_size").unwrap_or_default() as i32;
                let request =
                    ListPausesRequest { page_size, page_token: text("page_token"), thread_id, ..Default::default() };
                let page = client.list_pauses(request).await?;
                let pauses: Vec<Value> = page.pauses.iter().map(wire::pause).collect();
                json!({"pauses": pauses, "next_page_token": page.next_page_token})
            }
            _ => {
                let page_size = step.number("page_size").unwrap_or_default() as i32;
                let (page_token, include_running) = (text("page_token"), step.is("include_running"));
                let request = ListPauseStatesRequest { page_size, page_token, include_running };
                let page = client.list_pause_states(request).await?;
                let states: Vec<Value> = page.pause_states.iter().map(wire::state).collect();
                json!({"states": states, "next_page_token": page.next_page_token})
            }
        })
    }
}
