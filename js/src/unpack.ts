// The data as it travels: gzipped JSON.
import type { ViewData } from "./data";

export async function unpack(bytes: Uint8Array<ArrayBufferLike>): Promise<ViewData> {
  const stream = new Blob([bytes as Uint8Array<ArrayBuffer>]).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(stream).json()) as ViewData;
}
