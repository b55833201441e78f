/** Certificates for a test: X.509 v3 with ECDSA P-256, written in DER by hand, since Node can read certificates and not make them. */
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";

export interface Identity {
  readonly name: string;
  readonly key: KeyObject;
  /** PEM. */
  readonly certPem: string;
  readonly keyPem: string;
}

/** An identity named `name`, signed by `issuer`, or an authority signed by itself. Valid for an hour, for localhost and 127.0.0.1. */
export function identity(name: string, issuer?: Identity): Identity {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const body = sequence(
    tagged(0xa0, integer(Buffer.from([2]))),
    integer(Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ECDSA_WITH_SHA256,
    nameOf(issuer?.name ?? name),
    sequence(time(Date.now() - 60_000), time(Date.now() + 3_600_000)),
    nameOf(name),
    publicKey.export({ type: "spki", format: "der" }),
    tagged(0xa3, sequence(...extensions(issuer === undefined))),
  );
  const signature = sign("sha256", body, issuer?.key ?? privateKey);
  const certificate = sequence(body, ECDSA_WITH_SHA256, tagged(0x03, Buffer.from([0]), signature));
  const keyPem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  return { name, key: privateKey, certPem: pem(certificate), keyPem };
}

function extensions(authority: boolean): Buffer[] {
  const basicConstraints = sequence(...(authority ? [tagged(0x01, Buffer.from([0xff]))] : []));
  const names = sequence(tagged(0x82, Buffer.from("localhost")), tagged(0x87, Buffer.from([127, 0, 0, 1])));
  return [
    sequence(BASIC_CONSTRAINTS, tagged(0x01, Buffer.from([0xff])), tagged(0x04, basicConstraints)),
    sequence(SUBJECT_ALT_NAME, tagged(0x04, names)),
  ];
}

function tagged(tag: number, ...parts: Uint8Array[]): Buffer {
  const contents = Buffer.concat(parts);
  const { length } = contents;
  const header = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...header]), contents]);
}

function sequence(...parts: Uint8Array[]): Buffer {
  return tagged(0x30, ...parts);
}

function integer(bytes: Uint8Array): Buffer {
  return tagged(0x02, bytes);
}

function time(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replace(/\.\d+|[-:T]/g, "");
  return tagged(0x18, Buffer.from(digits));
}

function nameOf(commonName: string): Buffer {
  return sequence(tagged(0x31, sequence(COMMON_NAME, tagged(0x0c, Buffer.from(commonName)))));
}

function pem(der: Buffer): string {
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n");
}

const COMMON_NAME = Buffer.from("0603550403", "hex");
const BASIC_CONSTRAINTS = Buffer.from("0603551d13", "hex");
const SUBJECT_ALT_NAME = Buffer.from("0603551d11", "hex");
const ECDSA_WITH_SHA256 = Buffer.from("300a06082a8648ce3d040302", "hex");
