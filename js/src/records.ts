/** Records whose keys are names of a file: "constructor" and "__proto__" may be among them. */

/** The value of a record's own key; undefined for every other name. */
export function own<T>(record: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}
