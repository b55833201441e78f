/**
 * An MCP server on standard input and output with one tool, `run`. A command that asks a person holds its thread.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const server = new McpServer({ name: "commands", version: "1.0.0" });
const running = new AbortController();

server.registerTool(
  "run",
  { description: "Runs a command, and returns its exit code.", inputSchema: { command: z.array(z.string()).min(1) } },
  async ({ command }, { signal }) => {
    const [program = "", ...args] = command;
    const child = spawn(program, args, { stdio: ["ignore", "ignore", "inherit"], detached: true });
    // The client has given up, or has gone. If a tool of the command is asking somebody, it must not keep the thread
    // paused, so the whole process group is killed.
    AbortSignal.any([signal, running.signal]).addEventListener("abort", () => {
      if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGKILL");
    });
    const [code] = await once(child, "exit");
    return { content: [{ type: "text", text: String(code ?? 1) }] };
  },
);

process.stdin.once("end", () => running.abort());
await server.connect(new StdioServerTransport());
