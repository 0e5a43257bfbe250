// A browser starts no worker for a page that was opened as a file. The search's runs in a hidden frame there.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const inside = frame.contentWindow;
      // What the worker says goes to those who listen here, not to its own window.
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.post = (data) => inside.dispatchEvent(new MessageEvent("message", { data }));
      const element = inside.document.createElement("script");
      element.src = script;
      this.ready = new Promise((done) => element.addEventListener("load", done));
      inside.document.head.append(element);
    }
    postMessage(data) {
      this.ready.then(() => this.post(data));
    }
  };
