// The data as it travels: gzipped parts, of which the first is JSON and the others are long texts.
import type { ViewData } from "./data";

export interface Unpacked {
  data: ViewData;
  /** The long text that is a part of its own. */
  part(number: number): Promise<string>;
}

export async function unpack(bytes: Uint8Array): Promise<Unpacked> {
  const header = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const count = header.getUint32(0, true);
  const starts = [4 * (count + 1)];
  for (let part = 0; part < count; part++) starts.push(starts[part]! + header.getUint32(4 * (part + 1), true));
  const read = (part: number): Response => unzipped(bytes.subarray(starts[part], starts[part + 1]));
  return { data: (await read(0).json()) as ViewData, part: (number) => read(number).text() };
}

function unzipped(bytes: Uint8Array): Response {
  const blob = new Blob([bytes as Uint8Array<ArrayBuffer>]);
  return new Response(blob.stream().pipeThrough(new DecompressionStream("gzip")));
}
