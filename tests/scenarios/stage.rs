//! The operations of the stage itself, on the server, the proxy and the players, and its queries.
use crate::{
    case::Step,
    expect, ops,
    play::{Play, tell},
    proxy::Proxy,
    race,
};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};
use tokio::time::sleep;

impl Play<'_> {
    pub(crate) async fn stage(
        &mut self,
        op: &str,
        arguments: &Map<String, Value>,
        step: &Step,
    ) -> Result<Value, String> {
        let text = |key: &str| arguments.get(key).and_then(Value::as_str).unwrap_or_default();
        let number = |key: &str| arguments.get(key).and_then(Value::as_u64).unwrap_or_default();
        match op {
            // A saved time has a fraction.
            "wait" => sleep(Duration::from_secs_f64(arguments["ms"].as_f64().unwrap_or_default() / 1e3)).await,
            "stop_server" => self.server.stop(text("how")).await?,
            "start_server" => self.server.run().await?,
            "kill_player" => self.kill_player(text("player")).await?,
            "check" => return Ok(arguments["value"].clone()),
            "flip" => return self.server.flip(text("thread_id"), number("times")).await,
            "drain_watch" => return self.drain_watch(arguments, step).await,
            "token" => return self.token(arguments).await,
            "race" => return race::race(self, arguments).await,
            _ if ops::NEED_PROXY.contains(&op) => return self.break_links(op, text("replica")).await,
            _ => return self.server.call(op, arguments).await,
        }
        Ok(json!({}))
    }

    async fn token(&self, arguments: &Map<String, Value>) -> Result<Value, String> {
        let secrets = self.server.secrets.as_ref().ok_or("this case is not secure")?;
        let [role, thread_id, prefix] =
            ["role", "thread_id", "prefix"].map(|key| arguments.get(key).and_then(Value::as_str));
        let ttl = arguments.get("ttl").and_then(Value::as_str);
        let token = secrets.token(role.unwrap_or_default(), thread_id, prefix, ttl).await?;
        match arguments.get("file").and_then(Value::as_str) {
            Some(name) => Ok(json!({"file": secrets.write(name, &token)?})),
            None => Ok(json!({"token": token})),
        }
    }

    async fn break_links(&mut self, op: &str, replica: &str) -> Result<Value, String> {
        let latest = self.proxies.iter().map(Proxy::latest).max();
        let mut watches = 0;
        let chosen = self.proxies.iter_mut().filter(|proxy| match replica {
            "connected" => Some(proxy.latest()) == latest,
            "others" => Some(proxy.latest()) != latest,
            _ => true,
        });
        for proxy in chosen {
            match op {
                "cut" => proxy.cut().await,
                "hang" => proxy.hang(),
                "drain" => proxy.drain().await.map_err(|error| format!("drain a proxy: {error}"))?,
                "mend" => proxy.mend().await.map_err(|error| format!("mend a proxy: {error}"))?,
                "swallow_answers" => proxy.swallow_answers(),
                "mute_watches" => proxy.mute_watches(),
                _ => watches += proxy.open_streams(),
            }
        }
        Ok(if op == "streams" { json!({ "watches": watches }) } else { json!({}) })
    }

    /// Reads a player's watch until a state of the thread matches `until`.
    async fn drain_watch(&mut self, arguments: &Map<String, Value>, step: &Step) -> Result<Value, String> {
        let wish = step.keys.until.as_ref().ok_or("drain_watch needs an until")?;
        let wish = self.put_in(wish)?;
        let name = arguments.get("player").and_then(Value::as_str).unwrap_or("a").to_owned();
        let (mut rising, mut gap, mut last, mut states) = (true, false, None, 0);
        let end = Instant::now() + step.keys.within();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let next = json!({"watch": arguments["watch"], "within_ms": left.as_millis() as u64});
            let Value::Object(next) = next else { unreachable!("an object was written") };
            let event = self.player(&name).await?.call("next", next).await?.result.map_err(|error| tell(&error))?;
            if event["event"] == "nothing" {
                return Err(format!(
                    "the last state did not come within {:?}; {states} others did",
                    step.keys.within()
                ));
            }
            let state = &event["state"];
            if state["thread_id"] != arguments["thread_id"] {
                continue;
            }
            states += 1;
            let revision = state["revision"].as_u64();
            rising &= last < revision;
            gap |= event["gap"] == true;
            last = revision;
            if expect::check(&wish, state).is_ok() {
                return Ok(json!({ "rising": rising, "gap": gap, "states": states }));
            }
        }
    }
}
