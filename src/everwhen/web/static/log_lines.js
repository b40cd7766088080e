// The output of a job as lines: streams kept apart, colours as classes, everything else that is not text shown as text.

import { visible } from "./parts.js";

const MOST = 2000; // lines in the page
const SGR = /\u001b\[([0-9;]*)m/g;

// A line as pieces [class, text]; an escape sequence that is not a colour is shown, never obeyed.
export function colourPieces(line, style) {
  const found = [];
  let at = 0;
  const push = (text) => { if (text) found.push([[style.bold ? "b" : "", style.colour].filter(Boolean).join(" "), visible(text)]); };
  for (const code of line.matchAll(SGR)) {
    push(line.slice(at, code.index));
    at = code.index + code[0].length;
    for (const one of (code[1] || "0").split(";").map(Number)) {
      if (one === 0) { style.bold = false; style.colour = ""; } else if (one === 1) style.bold = true; else if (one === 22) style.bold = false; else if (one === 39) style.colour = ""; else if ((one >= 30 && one <= 37) || (one >= 90 && one <= 97)) style.colour = `c${one % 10}`;
    }
  }
  push(line.slice(at));
  return found;
}

export class LogLines {
  constructor() { this.lines = []; this.dropped = 0; this.open = new Map(); this.ends = new Map(); this.bytes = 0; this.count = 0; }
  // Pieces of the API's log, in the order in which they came.
  add(pieces) {
    // What came at once is ordered by attempt, the output before the errors.
    const rank = (piece) => piece.attempt * 10 + (piece.stream === "stderr" ? 1 : 0);
    for (const piece of [...pieces].sort((a, b) => rank(a) - rank(b))) {
      const key = `${piece.attempt} ${piece.stream}`, end = this.ends.get(key) ?? 0;
      if (piece.position > end) { this.open.delete(key); this.lines.push({ gap: piece.position - end, attempt: piece.attempt, stream: piece.stream, number: this.count }); }
      this.ends.set(key, piece.position + piece.length);
      this.bytes += piece.length;
      const state = this.open.get(key) || { line: null, style: { bold: false, colour: "" } };
      piece.text.split("\n").forEach((text, index) => {
        if (index === 0 && state.line) state.line.text += text;
        else {
          if (state.line?.text.includes("\u001b")) colourPieces(state.line.text, state.style); // a colour lasts until it is ended
          state.line = { number: ++this.count, attempt: piece.attempt, stream: piece.stream, text, style: { ...state.style } };
          this.lines.push(state.line);
        }
        state.line.pieces = null;
      });
      if (state.line && state.line.text === "") { this.lines.splice(this.lines.lastIndexOf(state.line), 1); this.count--; state.line = null; } // behind the last line break
      this.open.set(key, state);
    }
    if (this.lines.length > MOST) { this.dropped += this.lines.length - MOST; this.lines.splice(0, this.lines.length - MOST); }
  }
  static piecesOf(line) { if (!line.pieces) line.pieces = colourPieces(line.text.replace(/\r$/, ""), { ...line.style }); return line.pieces; }
}
