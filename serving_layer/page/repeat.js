// Work that is done again when something moved: never twice at once, never too often, never for a page nobody sees.

const AGAIN_AFTER_FAILURE = 5_000;

/** `run(signal)` returns false when it failed and is to be tried again. */
export function repeated(run, every) {
  let [running, wanted] = [false, false];
  let last = -Infinity;
  let timer = null;
  let stop = null;

  const plan = () => {
    if (running || timer !== null || !wanted || document.hidden) return;
    timer = setTimeout(go, Math.max(0, last + every - performance.now()));
  };
  const soon = () => {
    wanted = true;
    plan();
  };
  const go = async () => {
    timer = null;
    if (document.hidden) return;
    [running, wanted, last, stop] = [true, false, performance.now(), new AbortController()];
    try {
      if ((await run(stop.signal)) === false) setTimeout(soon, AGAIN_AFTER_FAILURE);
    } catch (error) {
      if (error.name !== "AbortError") throw error;
    } finally {
      running = false;
      plan();
    }
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && running) {
      // What is under way is not asked to its end: it is done when somebody looks again.
      wanted = true;
      stop.abort();
    }
    plan();
  });

  return {
    /** Something moved: as soon as it may be. */
    soon,
    /** Something else is asked: what is under way is of no use any more. */
    anew() {
      clearTimeout(timer);
      timer = null;
      last = -Infinity;
      stop?.abort();
      soon();
    },
  };
}
