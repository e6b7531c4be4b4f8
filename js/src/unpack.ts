// The data as it travels: gzipped parts, of which the first is JSON and the others are long texts, a stepper's elements, or explorers.
import type { ViewData } from "./data";

export interface Unpacked {
  data: ViewData;
  /** The long text that is a separate part. */
  part(number: number): Promise<string>;
  /** A part as it is. */
  bytes(number: number): Promise<ArrayBuffer>;
  /** The elements that a stepper shows; none of other views. */
  numbers: ArrayBuffer;
}

export async function unpack(bytes: Uint8Array): Promise<Unpacked> {
  const header = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const count = header.getUint32(0, true);
  const starts = [4 * (count + 1)];
  for (let part = 0; part < count; part++)
    starts.push(starts[part]! + header.getUint32(4 * (part + 1), true));
  const read = (part: number): Response => unzipped(bytes.subarray(starts[part], starts[part + 1]));
  const data = (await read(0).json()) as ViewData;
  const numbers = data.kind === "steps" ? await read(1).arrayBuffer() : new ArrayBuffer(0);
  return {
    data,
    part: (number) => read(number).text(),
    bytes: (number) => read(number).arrayBuffer(),
    numbers,
  };
}

function unzipped(bytes: Uint8Array): Response {
  const blob = new Blob([bytes as Uint8Array<ArrayBuffer>]);
  return new Response(blob.stream().pipeThrough(new DecompressionStream("gzip")));
}
