// Browsers refuse `new Worker` on a page that was opened as a file. There, run the search of the site in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.append(this.frame);
      const inside = this.frame.contentWindow;
      // As between threads: each side gets a copy, and later. With one object for both, the search forgets what was typed.
      inside.postMessage = (sent) => {
        const data = structuredClone(sent);
        setTimeout(() => this.onmessage?.(new MessageEvent("message", { data })));
      };
      const script = inside.document.createElement("script");
      this.loaded = new Promise((done) => { script.onload = done; });
      script.onerror = () => this.onerror?.(new ErrorEvent("error", { cancelable: true }));
      script.src = url;
      inside.document.body.append(script);
    }
    postMessage(sent) {
      const inside = this.frame.contentWindow;
      const data = inside.structuredClone(sent);
      this.loaded.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
