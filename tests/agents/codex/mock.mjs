// A fake model with the part of OpenAI's Responses API that Codex needs: it runs the command of the last message, and
// answers "done" when it has the command's output.
//
// A message is `run LIMIT COMMAND`, or `escalate LIMIT COMMAND` for a command that needs an approval. LIMIT is the time after which
// Codex reports that the command still runs, in milliseconds.
import http from "node:http";

export class Model {
  /** The reports of Codex about its commands. */
  outputs = [];
  #server = http.createServer((request, response) => this.#serve(request, response));

  async listen() {
    await new Promise((listening) => this.#server.listen(0, "127.0.0.1", listening));
    return `http://127.0.0.1:${this.#server.address().port}/v1`;
  }

  close() {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #serve(request, response) {
    let body = "";
    for await (const chunk of request) body += chunk;
    if (request.method !== "POST" || !request.url.endsWith("/responses")) {
      response.writeHead(404).end();
      return;
    }
    const item = this.#reply(JSON.parse(body).input.at(-1));
    response.writeHead(200, { "content-type": "text/event-stream" });
    const send = (type, fields) => response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`);
    send("response.created", { response: { id: "response" } });
    send("response.output_item.done", { output_index: 0, item });
    const usage = { input_tokens: 1, input_tokens_details: null, output_tokens: 1, output_tokens_details: null, total_tokens: 2 };
    send("response.completed", { response: { id: "response", usage } });
    response.end();
  }

  #reply(last) {
    if (last.type === "function_call_output") {
      this.outputs.push(last.output);
      return { type: "message", role: "assistant", id: "message", content: [{ type: "output_text", text: "done" }] };
    }
    const [, how, limit, cmd] = /^(run|escalate) (\d+) (.*)$/s.exec(last.content.map((part) => part.text).join(""));
    const approval = how === "escalate" ? { sandbox_permissions: "require_escalated", justification: "May I?" } : {};
    const args = JSON.stringify({ cmd, yield_time_ms: Number(limit), ...approval });
    return { type: "function_call", call_id: "call", name: "exec_command", arguments: args };
  }
}
