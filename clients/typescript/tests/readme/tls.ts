/** TLS by name and by IP address, in each runtime: they differ in what they take for the host. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TestCoordinator } from "pausewatch/testing";
import { identity } from "./certificates.js";

export async function block(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "pausewatch-readme-"));
  const [cert, key] = [join(directory, "cert.pem"), join(directory, "key.pem")];
  const authority = identity("authority");
  const server = identity("server", authority);
  writeFileSync(cert, server.certPem);
  writeFileSync(key, server.keyPem);
  const coordinator = await TestCoordinator.start({ options: ["--tls-cert", cert, "--tls-key", key] });
  for (const host of ["localhost", "127.0.0.1"]) {
    const address = coordinator.address.replace("127.0.0.1", host);
    const client = coordinator.client({ address, tls: { ca: authority.certPem }, retries: 0 });
    await client.getPauseState({ threadId: "t" });
    client.close();
  }
  await coordinator.stop();
  rmSync(directory, { recursive: true });
}
