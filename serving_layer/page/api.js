// Talks to the server: questions with their answers or problems, and the line on which it tells what moved.

const FIRST_RETRY = 1_000;
const LAST_RETRY = 10_000;
// How far the server's clock is ahead of this device's: ages are told by the server's.
let ahead = 0;

/** What the server says is wrong; `detail` is written for people. */
class Problem extends Error {}

export const now = () => Date.now() + ahead;

/** GET a path; parameters that are null or undefined are left out, lists are repeated. */
export async function get(path, parameters = {}, signal = undefined) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value === null || value === undefined) continue;
    for (const each of [value].flat()) query.append(name, each);
  }
  const response = await sent(query.size ? `${path}?${query}` : path, signal);
  const said = Date.parse(response.headers.get("date") ?? "");
  // The header knows whole seconds only; a smaller difference may be none.
  if (said) ahead = Math.abs(said - Date.now()) > 1_500 ? said - Date.now() : 0;
  if (response.ok) return response.json();
  const problem = await response.json().catch(() => ({}));
  throw new Problem(problem.detail || problem.title || `The server answered ${response.status} to ${path}.`);
}

async function sent(address, signal) {
  try {
    return await fetch(address, { headers: { accept: "application/json" }, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server does not answer: is `braid serve` still running? This page tries again by itself.");
  }
}

/** Keeps the line to /live open while the page is looked at, and says how it is: live, reconnecting or paused. */
export function listen({ on, state }) {
  let line = null;
  let retry = FIRST_RETRY;
  let timer = null;

  const open = () => {
    clearTimeout(timer);
    line?.close();
    line = new EventSource("/live");
    line.onopen = () => {
      retry = FIRST_RETRY;
      state("live");
    };
    line.onerror = () => {
      state("reconnecting");
      // A refused connection is opened again by the browser; after an answer that is no event stream it gives up.
      if (line.readyState !== EventSource.CLOSED) return;
      timer = setTimeout(open, retry);
      retry = Math.min(retry * 2, LAST_RETRY);
    };
    for (const [name, take] of Object.entries(on)) {
      line.addEventListener(name, ({ data }) => take(JSON.parse(data)));
    }
  };
  const close = () => {
    clearTimeout(timer);
    line?.close();
    state("paused");
  };

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  if (document.hidden) close();
  else open();
}
