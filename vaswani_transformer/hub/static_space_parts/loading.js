/** What the translator is made of, loaded with a report on progress. */

const LIBRARY = "vendor/ort-wasm-simd-threaded.wasm";

/**
 * @param {function(string): Promise<Uint8Array>} read gives a file of the folder
 * @param {{precision: string, search: object}} space what space.json holds
 * @returns {Promise<{library: Uint8Array, files: object}>} onnxruntime's WASM, and what `Translator.create` takes
 */
export async function loadFiles(read, { precision, search }) {
  const json = async (name) => JSON.parse(new TextDecoder().decode(await read(name)));
  const names = { config: "config.json", tokenizer: "tokenizer.json", tokenizerConfig: "tokenizer_config.json" };
  const [library, encoder, decoder, ...settings] = await Promise.all([
    read(LIBRARY),
    read(`onnx/encoder_model${precision}.onnx`),
    read(`onnx/decoder_model_merged${precision}.onnx`),
    ...Object.values(names).map(json),
  ]);
  return { library, files: { encoder, decoder, search, ...Object.fromEntries(Object.keys(names).map((key, place) => [key, settings[place]])) } };
}

/**
 * Fetch a file bit by bit.
 * @param {string} name its place beside this script
 * @param {function(number): void} onBytes gets the size of each bit
 * @returns {Promise<Uint8Array>}
 */
export async function fetchFile(name, onBytes) {
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name} could not be loaded (${response.status}).`);
  const bits = [];
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    bits.push(value);
    onBytes(value.length);
  }
  return new Uint8Array(await new Blob(bits).arrayBuffer());
}
