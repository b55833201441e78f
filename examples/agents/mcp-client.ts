/**
 * Calls the tool of `mcp-server.ts` under a limit that stands still while its thread is paused.
 *
 *     node mcp-client.js THREAD MILLISECONDS COMMAND [ARG]...
 *
 * The SDK ends every request after 60 s of wall time. So its own timeout is set to the maximum of a Node.js timer, 24.8
 * days, and the signal of pausewatch ends the call; the server is notified of the cancellation.
 *
 * Exit codes: those of the command; 124 if the call timed out.
 */
import { fileURLToPath } from "node:url";
import { Client as McpClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";
import { Client } from "pausewatch";

/** A longer timer overflows, and fires at once. */
const MAX_TIMEOUT_MS = 2_147_483_647;

const [threadId, limit, ...command] = process.argv.slice(2);
if (threadId === undefined) throw new Error("usage: mcp-client.js THREAD MILLISECONDS COMMAND [ARG]...");

const environment = Object.entries({ ...process.env, PAUSEWATCH_THREAD_ID: threadId });
const env = Object.fromEntries(environment.filter((entry): entry is [string, string] => entry[1] !== undefined));
const server = fileURLToPath(new URL("./mcp-server.js", import.meta.url));
const mcp = new McpClient({ name: "example", version: "1.0.0" });
await mcp.connect(new StdioClientTransport({ command: process.execPath, args: [server], env }));

using client = Client.fromEnv();
using timeout = client.startTimeout(Number(limit), { threadId });
try {
  const result = await mcp.callTool({ name: "run", arguments: { command } }, CallToolResultSchema, {
    signal: timeout.signal,
    timeout: MAX_TIMEOUT_MS,
  });
  const [content] = CallToolResultSchema.parse(result).content;
  process.exitCode = content?.type === "text" && !result.isError ? Number(content.text) : 125;
} catch (error) {
  if (!timeout.expired) throw error;
  process.exitCode = 124;
}
await mcp.close();
