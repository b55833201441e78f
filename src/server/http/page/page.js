"use strict";
// Lists the paused threads, live: WatchPauseState as a stream of Connect in JSON.
const path = "pausewatch.v1.ElicitationService/WatchPauseState";
const paused = new Map();
const state = document.getElementById("state");

function show() {
  const rows = [...paused.values()].map((thread) => {
    const row = document.createElement("li");
    const name = document.createElement("bdi");
    name.textContent = thread.threadId;
    row.append(name, `: ${thread.count} open`);
    return row;
  });
  document.getElementById("threads").replaceChildren(...rows);
  state.textContent = paused.size === 1 ? "1 thread is paused" : `${paused.size} threads are paused`;
}

function take(message) {
  const thread = message.pauseState;
  if (!thread) return;
  if (thread.paused) paused.set(thread.threadId, thread);
  else paused.delete(thread.threadId);
}

function prefixed(json) {
  const bytes = new TextEncoder().encode(json);
  const message = new Uint8Array(5 + bytes.length);
  new DataView(message.buffer).setUint32(1, bytes.length);
  message.set(bytes, 5);
  return message;
}

async function watch() {
  const response = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/connect+json", "connect-protocol-version": "1" },
    body: prefixed("{}"),
  });
  if (!response.ok) throw new Error(`the server answers ${response.status}`);
  paused.clear();
  let read = new Uint8Array();
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) throw new Error("the connection is lost");
    const all = new Uint8Array(read.length + value.length);
    all.set(read);
    all.set(value, read.length);
    read = all;
    while (read.length >= 5) {
      const length = new DataView(read.buffer, read.byteOffset).getUint32(1);
      if (read.length < 5 + length) break;
      const message = JSON.parse(new TextDecoder().decode(read.subarray(5, 5 + length)));
      if (read[0] & 2) throw new Error(message.error?.message ?? "the stream has ended");
      take(message);
      read = read.subarray(5 + length);
    }
    show();
  }
}

async function keepWatching() {
  for (;;) {
    await watch().catch((error) => (state.textContent = error.message));
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

keepWatching();
