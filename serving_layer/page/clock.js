// Instants in a source's time zone: how they are written, and where a chart has its ticks.

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR,
  12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY, 364 * DAY,
];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const formats = new Map();

/** What a clock on the wall shows at an instant, as if that were UTC: numbers that calendar arithmetic works on. */
export function wall(instant, zone) {
  if (!formats.has(zone)) {
    formats.set(zone, new Intl.DateTimeFormat("en-US", {
      timeZone: zone, hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric",
      hour: "numeric", minute: "numeric", second: "numeric",
    }));
  }
  const parts = formats.get(zone).formatToParts(instant);
  const part = Object.fromEntries(parts.map(({ type, value }) => [type, Number(value)]));
  return Date.UTC(part.year, part.month - 1, part.day, part.hour, part.minute, part.second);
}

/** The instant at which the wall shows this; of two, or of none, one that is near. */
export function instantOf(shown, zone) {
  const guess = shown - (wall(shown, zone) - shown);
  return guess + (shown - wall(guess, zone));
}

export const dayOf = (instant, zone) => new Date(wall(instant, zone)).toISOString().slice(0, 10);

/** "2026-03-04 09:31", with seconds when there are any. */
export function moment(text, zone) {
  if (!text) return "–";
  const shown = new Date(wall(new Date(text), zone)).toISOString();
  return `${shown.slice(0, 10)} ${time(shown)}`;
}

/** The time alone when it is of the same day as another moment. */
export function momentBeside(text, other, zone) {
  const [day, at] = moment(text, zone).split(" ");
  return other && moment(other, zone).startsWith(day) ? at : `${day} ${at}`;
}

/** [start, end) in as few words as tell it. */
export function span(start, end, zone) {
  const [from, to] = [wall(start, zone), wall(end, zone)];
  if (from % DAY === 0 && to - from === DAY) return dayOf(start, zone);
  return `${moment(start, zone)} – ${momentBeside(end, start, zone)}`;
}

/** A zone with its offset at an instant: "America/New_York (EST)". */
export function zoneName(zone, instant) {
  const parts = new Intl.DateTimeFormat("en-US", { timeZone: zone, timeZoneName: "short" }).formatToParts(instant);
  const short = parts.find(({ type }) => type === "timeZoneName")?.value;
  return short && short !== zone ? `${zone} (${short})` : zone;
}

/** Where a chart from start to end has its ticks, at round local times, and what they say. */
export function ticks(start, end, zone, most) {
  const step = STEPS.find((each) => (end - start) / each <= most) ?? STEPS.at(-1);
  const found = [];
  let day = null;
  for (let shown = Math.ceil(wall(start, zone) / step) * step; ; shown += step) {
    const instant = instantOf(shown, zone);
    if (instant > end) break;
    // An hour that the wall skips has no instant of its own: its tick would stand beside another one.
    if (instant < start || wall(instant, zone) !== shown) continue;
    const date = new Date(shown);
    const label = `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
    const clock = date.toISOString().slice(11, 16);
    found.push({ at: instant, label: step >= DAY ? label : label === day ? clock : `${clock}<br>${label}` });
    day = label;
  }
  return found;
}

function time(iso) {
  return iso.slice(17, 19) === "00" ? iso.slice(11, 16) : iso.slice(11, 19);
}
