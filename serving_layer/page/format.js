// Numbers and words as people read them.

const WHOLE = new Intl.NumberFormat("en-US");
const FRACTION = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });

/** A measure's value; sums of decimals come as text, because they are exact. */
export function number(value) {
  if (value === null || value === undefined) return "–";
  const found = Number(value);
  if (typeof value === "string" && !Number.isFinite(found)) return value;
  return Number.isInteger(found) ? WHOLE.format(found) : FRACTION.format(found);
}

/** A share that is not all of it is never shown as 100 %, and one that is something never as 0 %. */
export function percent(share) {
  if (share === null || share === undefined || Number.isNaN(share)) return "–";
  if (share === 0 || share === 1) return `${share * 100} %`;
  const shown = share * 100;
  if (shown < 0.01) return "< 0.01 %";
  if (shown > 99.99) return "> 99.99 %";
  return `${shown > 99 || shown < 1 ? shown.toFixed(2) : shown.toFixed(1)} %`;
}

export const share = (part, whole) => (whole ? part / whole : 0);

export function plural(n, one, many = `${one}s`) {
  return `${number(n)} ${n === 1 ? one : many}`;
}

/** How long ago, or how long: the two largest units. */
export function elapsed(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.max(0, seconds);
  if (whole < 10) return `${whole.toFixed(1).replace(/\.0$/, "")} s`;
  if (whole < 60) return `${Math.round(whole)} s`;
  const units = [["day", 86_400], ["h", 3_600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, length]) => whole >= length);
  const [name, length] = units[first];
  const n = Math.floor(whole / length);
  const [restName, restLength] = units[first + 1];
  const rest = Math.floor((whole - n * length) / restLength);
  const unit = name === "day" && n !== 1 ? "days" : name;
  return rest ? `${n} ${unit} ${rest} ${restName}` : `${n} ${unit}`;
}

/** A length of time as Braid writes it, which is also how a grain is asked for: "5 minutes". */
export function duration(seconds) {
  for (const [name, length] of [["day", 86_400], ["hour", 3_600], ["minute", 60]]) {
    if (seconds && seconds % length === 0) return plural(seconds / length, name);
  }
  return plural(seconds, "second");
}

/** A key's value; one that has none says so. */
export const keyText = (value) => (value === null ? "(no value)" : value === "" ? "(empty)" : String(value));
